-- What sacct says of jobs and of their steps, in our words. The tasks of an array that still wait are one job: the rest
-- of it.

with dumped as (

    select * from {{ source('landed', 'bronze_slurm_jobs') }}

),

known as (

    select * from {{ source('landed', 'known_clusters') }}

),

named as (

    select
        *,
        coalesce(lower("Cluster"), 'slurm') as cluster_id,
        coalesce(array_task_id like '[%', false) as is_rest,
        {{ slurm_status('base_state') }} as status
    from dumped

)

select
    named.*,
    case when named.is_rest then named.array_job_id || '_[]' else named.job_id end as own_job_id,
    known.gpu_type as known_gpu_type,
    {{ instant_of_local('named."Submit"', "coalesce(known.time_zone, 'UTC')") }} as submitted_at,
    {{ instant_of_local('named."Eligible"', "coalesce(known.time_zone, 'UTC')") }} as eligible_at,
    -- sacct may say when a job that waits is expected to begin.
    case
        when named.status != 'waiting' then {{ instant_of_local('named."Start"', "coalesce(known.time_zone, 'UTC')") }}
    end as started_at,
    {{ instant_of_local('named."End"', "coalesce(known.time_zone, 'UTC')") }} as ended_at
from named
left join known on named.cluster_id = known.cluster_id
