-- What sacct says of jobs and of their steps, in our words. The tasks of an array that still wait are one job: the rest
-- of it.

with dumped as (

    select * from "landed"."main"."bronze_slurm_jobs"

),

known as (

    select * from "landed"."main"."known_clusters"

),

usual as (

    select
        coalesce(
            (select max(jobs.time_zone) from "landed"."main"."bronze_slurm_jobs" as jobs),
            max(known.time_zone),
            'UTC'
        ) as usual_zone
    from known
    where
        known.cluster_id in (
            select coalesce(lower(jobs."Cluster"), 'slurm')
            from "landed"."main"."bronze_slurm_jobs" as jobs
        )

),

named as (

    select
        *,
        coalesce(lower("Cluster"), 'slurm') as cluster_id,
        case when array_task_id like '[%' then array_job_id || '_[]' else job_id end as own_job_id,
        coalesce(array_task_id like '[%', false) as is_rest,
        case
        when base_state = 'COMPLETED' then 'succeeded'
        when base_state in ('FAILED', 'OUT_OF_MEMORY', 'LAUNCH_FAILED', 'RECONFIG_FAIL') then 'failed'
        when base_state in ('NODE_FAIL', 'BOOT_FAIL') then 'node_fail'
        when base_state in ('TIMEOUT', 'DEADLINE') then 'timeout'
        when base_state in ('PREEMPTED', 'REQUEUED', 'REVOKED') then 'interrupted'
        when base_state = 'CANCELLED' or base_state like 'CANCELLED by %' then 'cancelled'
        when
            base_state in (
                'RUNNING', 'COMPLETING', 'CONFIGURING', 'POWER_UP_NODE', 'RESIZING', 'SIGNALING', 'STAGE_OUT', 'STOPPED',
                'SUSPENDED'
            )
            then 'running'
        when
            base_state in (
                'PENDING', 'REQUEUE_FED', 'REQUEUE_HOLD', 'RESV_DEL_HOLD', 'SPECIAL_EXIT', 'EXPEDITING'
            )
            then 'waiting'
        else 'unknown'
    end as status
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
        case when isfinite("ElapsedRaw") then "ElapsedRaw" end as elapsed_seconds,
        case
        when zone = usual_zone then timezone(usual_zone, "Submit")
        else timezone(zone, "Submit")
    end as submitted_at,
        case
        when zone = usual_zone then timezone(usual_zone, "Eligible")
        else timezone(zone, "Eligible")
    end as eligible_at,
        case
            -- sacct may say when a job that waits is expected to begin.
            when status = 'waiting' then null
            -- Of a job that was cancelled as it waited some versions say that it began as it ended.
            when
                status in ('cancelled', 'timeout', 'interrupted') and "Start" = "End" and coalesce("ElapsedRaw", 0) = 0
                and nodes is null and coalesce(gpus, 0) = 0
                then null
            else case
        when zone = usual_zone then timezone(usual_zone, "Start")
        else timezone(zone, "Start")
    end
        end as later_started_at,
        case
        when zone = usual_zone then timezone(usual_zone, "End")
        else timezone(zone, "End")
    end as later_ended_at
    from zoned

),

compared as (

    select
        *,
        (epoch_us(later_ended_at) / 1e6) - (epoch_us(later_started_at) / 1e6)
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
                    then case
        when
            least(
            timezone(zone, "Start" - interval 1 day) + interval 24 hour,
            timezone(zone, "Start" + interval 1 day) - interval 24 hour
        ) < later_started_at
            and (
                timezone(zone, least(
            timezone(zone, "Start" - interval 1 day) + interval 24 hour,
            timezone(zone, "Start" + interval 1 day) - interval 24 hour
        )) = "Start" or timezone(zone, later_started_at) != "Start"
            )
            then least(
            timezone(zone, "Start" - interval 1 day) + interval 24 hour,
            timezone(zone, "Start" + interval 1 day) - interval 24 hour
        )
    end
            end,
            later_started_at
        ) as started_at,
        case
            when excess_seconds > 0 and elapsed_seconds is not null
                then case
        when
            least(
            timezone(zone, "End" - interval 1 day) + interval 24 hour,
            timezone(zone, "End" + interval 1 day) - interval 24 hour
        ) < later_ended_at
            and (
                timezone(zone, least(
            timezone(zone, "End" - interval 1 day) + interval 24 hour,
            timezone(zone, "End" + interval 1 day) - interval 24 hour
        )) = "End" or timezone(zone, later_ended_at) != "End"
            )
            then least(
            timezone(zone, "End" - interval 1 day) + interval 24 hour,
            timezone(zone, "End" + interval 1 day) - interval 24 hour
        )
    end
        end as earlier_ended_at
    from compared

),

ended as (

    select
        *,
        case
            when (epoch_us(earlier_ended_at) / 1e6) - (epoch_us(started_at) / 1e6) >= elapsed_seconds
                then earlier_ended_at
            else later_ended_at
        end as told_ended_at
    from begun

)

select
    * replace (
        
            -- Nothing is submitted after it began.
            coalesce(
                case
                    when submitted_at > started_at
                        then case
        when
            least(
            timezone(zone, "Submit" - interval 1 day) + interval 24 hour,
            timezone(zone, "Submit" + interval 1 day) - interval 24 hour
        ) < submitted_at
            and (
                timezone(zone, least(
            timezone(zone, "Submit" - interval 1 day) + interval 24 hour,
            timezone(zone, "Submit" + interval 1 day) - interval 24 hour
        )) = "Submit" or timezone(zone, submitted_at) != "Submit"
            )
            then least(
            timezone(zone, "Submit" - interval 1 day) + interval 24 hour,
            timezone(zone, "Submit" + interval 1 day) - interval 24 hour
        )
    end
                end,
                submitted_at
            ) as submitted_at,
        
            -- Nothing is submitted after it began.
            coalesce(
                case
                    when eligible_at > started_at
                        then case
        when
            least(
            timezone(zone, "Eligible" - interval 1 day) + interval 24 hour,
            timezone(zone, "Eligible" + interval 1 day) - interval 24 hour
        ) < eligible_at
            and (
                timezone(zone, least(
            timezone(zone, "Eligible" - interval 1 day) + interval 24 hour,
            timezone(zone, "Eligible" + interval 1 day) - interval 24 hour
        )) = "Eligible" or timezone(zone, eligible_at) != "Eligible"
            )
            then least(
            timezone(zone, "Eligible" - interval 1 day) + interval 24 hour,
            timezone(zone, "Eligible" + interval 1 day) - interval 24 hour
        )
    end
                end,
                eligible_at
            ) as eligible_at
        
    ),
    case
        when
            status not in ('running', 'waiting', 'unknown')
            and elapsed_seconds is not null
            and coalesce(told_ended_at < started_at, started_at is not null)
            then started_at + to_seconds(elapsed_seconds)
        else told_ended_at
    end as ended_at,
    -- The local time of the cluster, in whichever zone it was written.
    case when zone = cluster_zone then "Start" else timezone(cluster_zone, started_at) end as local_start
from ended
