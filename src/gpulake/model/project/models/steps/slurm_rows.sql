-- What sacct says of jobs and of their steps, in our words. The tasks of an array that still wait are one job: the rest
-- of it.

with dumped as (

    select * from {{ source('landed', 'bronze_slurm_jobs') }}

),

known as (

    select * from {{ source('landed', 'known_clusters') }}

),

usual as (

    select
        coalesce(
            (select max(jobs.time_zone) from {{ source('landed', 'bronze_slurm_jobs') }} as jobs),
            max(known.time_zone),
            'UTC'
        ) as usual_zone
    from known
    where
        known.cluster_id in (
            select coalesce(lower(jobs."Cluster"), 'slurm')
            from {{ source('landed', 'bronze_slurm_jobs') }} as jobs
        )

),

named as (

    select
        *,
        {{ slurm_cluster() }} as cluster_id,
        {{ slurm_job() }} as own_job_id,
        coalesce(array_task_id like '[%', false) as is_rest,
        {{ slurm_status('base_state') }} as status
    from dumped

),

zoned as (

    select
        named.*,
        known.gpu_type as known_gpu_type,
        coalesce(named.time_zone, known.time_zone, 'UTC') as zone,
        coalesce(known.time_zone, 'UTC') as cluster_zone,
        usual.usual_zone
    from named
    left join known on named.cluster_id = known.cluster_id
    cross join usual

),

-- Of a local time that comes twice the later instant is read.
later as (

    select
        *,
        {{ finite('"ElapsedRaw"') }} as elapsed_seconds,
        {{ instant_of_local('"Submit"', 'zone', 'usual_zone') }} as submitted_at,
        {{ instant_of_local('"Eligible"', 'zone', 'usual_zone') }} as eligible_at,
        case
            -- sacct may say when a job that waits is expected to begin.
            when status = 'waiting' then null
            -- Of a job that was cancelled as it waited some versions say that it began as it ended.
            when
                status in ('cancelled', 'timeout', 'interrupted') and "Start" = "End" and coalesce("ElapsedRaw", 0) = 0
                and nodes is null and coalesce(gpus, 0) = 0
                then null
            else {{ instant_of_local('"Start"', 'zone', 'usual_zone') }}
        end as later_started_at,
        {{ instant_of_local('"End"', 'zone', 'usual_zone') }} as later_ended_at
    from zoned

),

compared as (

    select
        *,
        {{ seconds_of('later_ended_at') }} - {{ seconds_of('later_started_at') }}
        - coalesce(elapsed_seconds, 0) as excess_seconds
    from later

),

-- A run lasts as long as sacct says that it ran, and longer if it was suspended, but no shorter.
begun as (

    select
        *,
        coalesce(
            case
                when excess_seconds < 0
                    then {{ earlier_instant_of_local('"Start"', 'later_started_at', 'zone') }}
            end,
            later_started_at
        ) as started_at,
        case
            when excess_seconds > 0 and elapsed_seconds is not null
                then {{ earlier_instant_of_local('"End"', 'later_ended_at', 'zone') }}
        end as earlier_ended_at
    from compared

),

ended as (

    select
        *,
        case
            when {{ seconds_of('earlier_ended_at') }} - {{ seconds_of('started_at') }} >= elapsed_seconds
                then earlier_ended_at
            else later_ended_at
        end as told_ended_at
    from begun

)

select
    * replace (
        {% for moment, local in [('submitted_at', '"Submit"'), ('eligible_at', '"Eligible"')] %}
            -- Nothing is submitted after it began.
            coalesce(
                case
                    when {{ moment }} > started_at
                        then {{ earlier_instant_of_local(local, moment, 'zone') }}
                end,
                {{ moment }}
            ) as {{ moment }}{{ ',' if not loop.last }}
        {% endfor %}
    ),
    case
        when
            status not in ('running', 'waiting', 'unknown')
            and elapsed_seconds is not null
            and coalesce(told_ended_at < started_at, started_at is not null)
            then {{ later('started_at', 'elapsed_seconds') }}
        else told_ended_at
    end as ended_at,
    -- The local time of the cluster, in whichever zone it was written.
    case when zone = cluster_zone then "Start" else {{ local_time('started_at', 'cluster_zone') }} end as local_start
from ended
