-- What sacct says of jobs and of their steps, in our words. The tasks of an array that still wait are one job: the rest
-- of it.

with dumped as (

    select * from {{ source('landed', 'bronze_slurm_jobs') }}

),

known as (

    select * from {{ source('landed', 'known_clusters') }}

),

usual as (

    select coalesce(max(time_zone), 'UTC') as usual_zone
    from known
    where
        cluster_id in (
            select coalesce(lower(jobs."Cluster"), 'slurm')
            from {{ source('landed', 'bronze_slurm_jobs') }} as jobs
        )

),

named as (

    select
        *,
        coalesce(lower("Cluster"), 'slurm') as cluster_id,
        coalesce(array_task_id like '[%', false) as is_rest,
        {{ slurm_status('base_state') }} as status
    from dumped

),

zoned as (

    select
        named.*,
        case when named.is_rest then named.array_job_id || '_[]' else named.job_id end as own_job_id,
        known.gpu_type as known_gpu_type,
        coalesce(known.time_zone, 'UTC') as time_zone,
        usual.usual_zone
    from named
    left join known on named.cluster_id = known.cluster_id
    cross join usual

)

select
    *,
    {{ instant_of_local('"Submit"', 'time_zone', 'usual_zone') }} as submitted_at,
    {{ instant_of_local('"Eligible"', 'time_zone', 'usual_zone') }} as eligible_at,
    -- sacct may say when a job that waits is expected to begin.
    case when status != 'waiting' then {{ instant_of_local('"Start"', 'time_zone', 'usual_zone') }} end as started_at,
    {{ instant_of_local('"End"', 'time_zone', 'usual_zone') }} as ended_at
from zoned
