-- Energy is the driver's counter where there is one, else power times time. Nobody's energy has an owner, too.

with  __dbt__cte__slurm_rows as (
-- What sacct says of jobs and of their steps, in our words. The tasks of an array that still wait are one job: the rest
-- of it.

with dumped as (

    select * from "landed"."main"."bronze_slurm_jobs"

),

known as (

    select * from "landed"."main"."known_clusters"

),

usual as (

    select coalesce(max(time_zone), 'UTC') as usual_zone
    from known
    where
        cluster_id in (
            select coalesce(lower(jobs."Cluster"), 'slurm')
            from "landed"."main"."bronze_slurm_jobs" as jobs
        )

),

named as (

    select
        *,
        coalesce(lower("Cluster"), 'slurm') as cluster_id,
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
        case when named.is_rest then named.array_job_id || '_[]' else named.job_id end as own_job_id,
        known.gpu_type as known_gpu_type,
        coalesce(known.time_zone, 'UTC') as time_zone,
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
        when time_zone = usual_zone then timezone(usual_zone, "Submit")
        else timezone(time_zone, "Submit")
    end as submitted_at,
        case
        when time_zone = usual_zone then timezone(usual_zone, "Eligible")
        else timezone(time_zone, "Eligible")
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
        when time_zone = usual_zone then timezone(usual_zone, "Start")
        else timezone(time_zone, "Start")
    end
        end as later_started_at,
        case
        when time_zone = usual_zone then timezone(usual_zone, "End")
        else timezone(time_zone, "End")
    end as later_ended_at
    from zoned

),

compared as (

    select
        *,
        epoch(later_ended_at) - epoch(later_started_at)
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
            timezone(time_zone, "Start" - interval 1 day) + interval 24 hour,
            timezone(time_zone, "Start" + interval 1 day) - interval 24 hour
        ) < later_started_at
            and (
                timezone(time_zone, least(
            timezone(time_zone, "Start" - interval 1 day) + interval 24 hour,
            timezone(time_zone, "Start" + interval 1 day) - interval 24 hour
        )) = "Start" or timezone(time_zone, later_started_at) != "Start"
            )
            then least(
            timezone(time_zone, "Start" - interval 1 day) + interval 24 hour,
            timezone(time_zone, "Start" + interval 1 day) - interval 24 hour
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
            timezone(time_zone, "End" - interval 1 day) + interval 24 hour,
            timezone(time_zone, "End" + interval 1 day) - interval 24 hour
        ) < later_ended_at
            and (
                timezone(time_zone, least(
            timezone(time_zone, "End" - interval 1 day) + interval 24 hour,
            timezone(time_zone, "End" + interval 1 day) - interval 24 hour
        )) = "End" or timezone(time_zone, later_ended_at) != "End"
            )
            then least(
            timezone(time_zone, "End" - interval 1 day) + interval 24 hour,
            timezone(time_zone, "End" + interval 1 day) - interval 24 hour
        )
    end
        end as earlier_ended_at
    from compared

),

ended as (

    select
        *,
        case
            when epoch(earlier_ended_at) - epoch(started_at) >= elapsed_seconds
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
            timezone(time_zone, "Submit" - interval 1 day) + interval 24 hour,
            timezone(time_zone, "Submit" + interval 1 day) - interval 24 hour
        ) < submitted_at
            and (
                timezone(time_zone, least(
            timezone(time_zone, "Submit" - interval 1 day) + interval 24 hour,
            timezone(time_zone, "Submit" + interval 1 day) - interval 24 hour
        )) = "Submit" or timezone(time_zone, submitted_at) != "Submit"
            )
            then least(
            timezone(time_zone, "Submit" - interval 1 day) + interval 24 hour,
            timezone(time_zone, "Submit" + interval 1 day) - interval 24 hour
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
            timezone(time_zone, "Eligible" - interval 1 day) + interval 24 hour,
            timezone(time_zone, "Eligible" + interval 1 day) - interval 24 hour
        ) < eligible_at
            and (
                timezone(time_zone, least(
            timezone(time_zone, "Eligible" - interval 1 day) + interval 24 hour,
            timezone(time_zone, "Eligible" + interval 1 day) - interval 24 hour
        )) = "Eligible" or timezone(time_zone, eligible_at) != "Eligible"
            )
            then least(
            timezone(time_zone, "Eligible" - interval 1 day) + interval 24 hour,
            timezone(time_zone, "Eligible" + interval 1 day) - interval 24 hour
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
    end as ended_at
from ended
),  __dbt__cte__owner_jobs as (
-- The job behind the name that telemetry has for the holder of a GPU. A node knows a task of an array, or a part of a
-- heterogeneous job, by its raw number only.

select
    cluster_id,
    'slurm' as owner_kind,
    raw_job_id as owner_id,
    cast(hash(cluster_id, max(own_job_id)) >> 1 as bigint) as job_key
from __dbt__cte__slurm_rows
where step is null and not is_rest and raw_job_id is not null
group by cluster_id, raw_job_id
), samples as (

    select * from "lake"."main"."silver_gpu_samples"

),

jobs as (

    select * from "lake"."main"."silver_jobs"

),

owner_jobs as (

    select * from __dbt__cte__owner_jobs

),

owned as (

    select
        cluster_id,
        owner_kind,
        coalesce(owner_id, owner_kind) as owner_id,
        count(distinct gpu_id) as gpus,
        sum(covers_seconds) / 3600 as gpu_hours,
        sum(case when energy_joules is not null then covers_seconds else 0 end) / 3600 as measured_gpu_hours,
        sum(energy_joules) as energy_joules,
        coalesce(sum(case when energy_basis = 'counter' then energy_joules end), 0) as counted_energy_joules,
        min(sampled_at) as first_sampled_at,
        max(sampled_at) as last_sampled_at
    from samples
    group by cluster_id, owner_kind, coalesce(owner_id, owner_kind)

    union all

    -- Counters go on while nobody looks; who held the GPU then is not known.
    select
        cluster_id,
        'unseen' as owner_kind,
        'unseen' as owner_id,
        count(distinct gpu_id) as gpus,
        0 as gpu_hours,
        0 as measured_gpu_hours,
        sum(unseen_energy_joules) as energy_joules,
        sum(unseen_energy_joules) as counted_energy_joules,
        min(sampled_at) as first_sampled_at,
        max(sampled_at) as last_sampled_at
    from samples
    where unseen_energy_joules > 0
    group by cluster_id

),

final as (

    select
        owned.cluster_id,
        owned.owner_kind,
        owned.owner_id,
        jobs.job_key,
        jobs.user_id,
        jobs.account_id,
        jobs.status,
        owned.gpus,
        owned.gpu_hours,
        owned.measured_gpu_hours,
        owned.energy_joules,
        owned.energy_joules / 3600000 as energy_kilowatt_hours,
        owned.counted_energy_joules / nullif(owned.energy_joules, 0) as counted_ratio,
        owned.energy_joules / nullif(owned.measured_gpu_hours * 3600, 0) as mean_gpu_watts,
        owned.first_sampled_at,
        owned.last_sampled_at
    from owned
    left join owner_jobs
        on
            owned.cluster_id = owner_jobs.cluster_id
            and owned.owner_kind = owner_jobs.owner_kind
            and owned.owner_id = owner_jobs.owner_id
    left join jobs on owner_jobs.job_key = jobs.job_key

)

select * from final
order by cluster_id, owner_kind, owner_id

-- test: accepted_values_gold_job_energy_owner_kind__slurm__pod__container__trace__several__unattributed__nobody__unknown__unseen(owner_kind) error
where owner_kind not in ('slurm', 'pod', 'container', 'trace', 'several', 'unattributed', 'nobody', 'unknown', 'unseen')

-- test: all_energy_has_an_owner() error
select cluster_id
from (
    select cluster_id, energy_joules as here, 0e0 as there from "lake"."main"."gold_job_energy"
    union all
    select cluster_id, 0e0 as here, energy_joules as there from (select cluster_id, coalesce(energy_joules, 0) + unseen_energy_joules as energy_joules from "lake"."main"."silver_gpu_samples")
) as both_sides
group by cluster_id
having abs(sum(here) - sum(there)) > 0.001 * sum(there) + 0.000001

-- test: an_owner_has_its_energy_once() error
select cluster_id, owner_kind, owner_id
from "lake"."main"."gold_job_energy"
group by cluster_id, owner_kind, owner_id
having count(*) > 1

-- test: in_range_gold_job_energy_0__1__counted_ratio(counted_ratio) error
where false
    or counted_ratio < 0
    or counted_ratio > 1

-- test: in_range_gold_job_energy_0__energy_joules(energy_joules) error
where false
    or energy_joules < 0

-- test: in_range_gold_job_energy_0__energy_kilowatt_hours(energy_kilowatt_hours) error
where false
    or energy_kilowatt_hours < 0

-- test: in_range_gold_job_energy_0__gpu_hours(gpu_hours) error
where false
    or gpu_hours < 0

-- test: in_range_gold_job_energy_0__mean_gpu_watts(mean_gpu_watts) error
where false
    or mean_gpu_watts < 0

-- test: in_range_gold_job_energy_0__measured_gpu_hours(measured_gpu_hours) error
where false
    or measured_gpu_hours < 0

-- test: in_range_gold_job_energy_1__gpus(gpus) error
where false
    or gpus < 1

-- test: not_null_gold_job_energy_cluster_id(cluster_id) error
where cluster_id is null

-- test: not_null_gold_job_energy_first_sampled_at(first_sampled_at) error
where first_sampled_at is null

-- test: not_null_gold_job_energy_gpu_hours(gpu_hours) error
where gpu_hours is null

-- test: not_null_gold_job_energy_gpus(gpus) error
where gpus is null

-- test: not_null_gold_job_energy_last_sampled_at(last_sampled_at) error
where last_sampled_at is null

-- test: not_null_gold_job_energy_measured_gpu_hours(measured_gpu_hours) error
where measured_gpu_hours is null

-- test: not_null_gold_job_energy_owner_id(owner_id) error
where owner_id is null

-- test: not_null_gold_job_energy_owner_kind(owner_kind) error
where owner_kind is null
