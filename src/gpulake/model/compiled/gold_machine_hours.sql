-- Capacity that was down is nobody's; of the rest, what was held is shared out as it was used. Where more was held than
-- there was, as GPU sharing and inferred intervals allow, all of it shrinks alike and the excess is stated. What is
-- left was held by nobody, unless nobody can say, or telemetry says otherwise.



with hours as (

    select * from "lake"."main"."silver_hours"

),

capacity as (

    select * from "lake"."main"."silver_capacity"

),

changes as (

    select * from "lake"."main"."silver_capacity_stretches"

),

held as (

    select * from "lake"."main"."silver_held_hours"

),

outages as (

    select * from "lake"."main"."silver_outages"

),

clusters as (

    select * from "lake"."main"."silver_clusters"

),

-- What telemetry says of the GPUs of a machine: in use by anybody, or proved to have no holder.
seen as (

    select
        machine_key,
        hour_number,
        sum(in_use_hours) as in_use_hours,
        sum(free_hours) as free_hours
    from "lake"."main"."silver_gpu_hours"
    group by machine_key, hour_number

),

excesses as (

    select * from "lake"."main"."silver_excess_hours"

),

down as (

    select
        outages.machine_key,
        hours.hour_number,
        sum(case when outages.basis in ('recorded', 'died') then (epoch_us(least(outages.ended_at, hours.observed_until)) / 1e6)
    - (epoch_us(greatest(outages.started_at, hours.observed_from)) / 1e6) else 0 end) / 3600 as hours,
        sum(case when outages.basis = 'recorded' then (epoch_us(least(outages.ended_at, hours.observed_until)) / 1e6)
    - (epoch_us(greatest(outages.started_at, hours.observed_from)) / 1e6) else 0 end) / 3600 as recorded_hours,
        sum(case when outages.basis = 'reported' then (epoch_us(least(outages.ended_at, hours.observed_until)) / 1e6)
    - (epoch_us(greatest(outages.started_at, hours.observed_from)) / 1e6) else 0 end) / 3600 as reported_hours,
        bool_or(outages.basis = 'silent') as is_silent
    from outages
    inner join hours
        on
            outages.cluster_id = hours.cluster_id
            and outages.started_at < hours.observed_until
            and outages.ended_at > hours.observed_from
    group by outages.machine_key, hours.hour_number

),

spine as (

    select
        capacity.cluster_id,
        capacity.machine_key,
        hours.hour_number,
        hours.started_at,
        hours.dt,
        coalesce(capacity.gpu_type, 'unknown') as gpu_type,
        coalesce(changes.gpus, capacity.gpus) * hours.observed_seconds / 3600 as capacity_gpu_hours,
        coalesce(changes.gpus, capacity.gpus) as gpus,
        hours.observed_seconds / 3600 as observed_ratio,
        clusters.has_jobs,
        clusters.unknown_demand_ratio > 0.5 as is_of_unknown_demand
    from capacity
    inner join hours on capacity.cluster_id = hours.cluster_id
    inner join clusters on capacity.cluster_id = clusters.cluster_id
    left join changes
        on
            capacity.machine_key = changes.machine_key
            and hours.dt >= changes.valid_from
            and hours.dt < changes.valid_until
    where hours.observed_seconds > 0 and (capacity.counted_from is null or capacity.counted_from < hours.ended_at)

),

joined as (

    select
        spine.*,
        least(coalesce(down.hours, 0) * spine.gpus, spine.capacity_gpu_hours) as whole_gpu_hours,
        least(coalesce(down.recorded_hours, 0) * spine.gpus, spine.capacity_gpu_hours) as recorded_gpu_hours,
        coalesce(down.reported_hours, 0) * spine.gpus as reported_gpu_hours,
        
            coalesce(held.idle_gpu_hours, 0) as idle_gpu_hours,
        
            coalesce(held.under_used_gpu_hours, 0) as under_used_gpu_hours,
        
            coalesce(held.failed_gpu_hours, 0) as failed_gpu_hours,
        
            coalesce(held.timed_out_gpu_hours, 0) as timed_out_gpu_hours,
        
            coalesce(held.interrupted_gpu_hours, 0) as interrupted_gpu_hours,
        
            coalesce(held.unobserved_gpu_hours, 0) as unobserved_gpu_hours,
        
            coalesce(held.used_gpu_hours, 0) as used_gpu_hours,
        
            coalesce(held.lost_at_least_gpu_hours, 0) as lost_at_least_gpu_hours,
        
            coalesce(held.inferred_gpu_hours, 0) as inferred_gpu_hours,
        
            coalesce(held.inferred_lost_gpu_hours, 0) as inferred_lost_gpu_hours,
        
        spine.is_of_unknown_demand or coalesce(held.has_unknown_demand, false)
        or coalesce(down.is_silent, false) as is_unknown,
        coalesce(seen.in_use_hours, 0) * spine.observed_ratio as in_use_gpu_hours,
        coalesce(excesses.held_when_sampled_gpu_hours, 0) * spine.observed_ratio as held_when_sampled_gpu_hours,
        coalesce(seen.free_hours, 0) * spine.observed_ratio as seen_free_gpu_hours
    from spine
    left join held on spine.machine_key = held.machine_key and spine.hour_number = held.hour_number
    left join down on spine.machine_key = down.machine_key and spine.hour_number = down.hour_number
    left join seen on spine.machine_key = seen.machine_key and spine.hour_number = seen.hour_number
    left join excesses on spine.machine_key = excesses.machine_key and spine.hour_number = excesses.hour_number

),

claimed as (

    select
        *,
        idle_gpu_hours + under_used_gpu_hours + failed_gpu_hours + timed_out_gpu_hours + interrupted_gpu_hours + unobserved_gpu_hours + used_gpu_hours as claimed_gpu_hours
    from joined

),

-- What a job holds on a machine that is being drained is not down.
reported as (

    select
        *,
        least(
            reported_gpu_hours, greatest(capacity_gpu_hours - whole_gpu_hours - claimed_gpu_hours, 0)
        ) as reported_down_gpu_hours
    from claimed

),

withdrawn as (

    select
        *,
        whole_gpu_hours + reported_down_gpu_hours as down_gpu_hours,
        recorded_gpu_hours + reported_down_gpu_hours as recorded_down_gpu_hours
    from reported

),

shares as (

    select
        *,
        case
            when claimed_gpu_hours > capacity_gpu_hours - down_gpu_hours
                then (capacity_gpu_hours - down_gpu_hours) / claimed_gpu_hours
            else 1
        end as share
    from withdrawn

),

left_over as (

    select
        *,
        greatest(capacity_gpu_hours - down_gpu_hours - claimed_gpu_hours * share, 0) as free_gpu_hours,
        in_use_gpu_hours - greatest(claimed_gpu_hours, held_when_sampled_gpu_hours) as excess_gpu_hours
    from shares

),

-- Without records of jobs, only what telemetry proves to be free is. With them, what is in use beyond what they hold,
-- in the hour and when it was sampled, has an unknown holder. Less than a twentieth has not: clocks differ.
judged as (

    select
        *,
        case
            when is_unknown then free_gpu_hours
            when not has_jobs then greatest(free_gpu_hours - seen_free_gpu_hours, 0)
            when excess_gpu_hours > 0.05 * capacity_gpu_hours then least(excess_gpu_hours, free_gpu_hours)
            else 0
        end as unknown_gpu_hours
    from left_over

),

final as (

    select
        cluster_id,
        machine_key,
        started_at,
        dt,
        gpu_type,
        capacity_gpu_hours,
        down_gpu_hours,
        unknown_gpu_hours,
        free_gpu_hours - unknown_gpu_hours as unallocated_gpu_hours,
        
            idle_gpu_hours * share as idle_gpu_hours,
        
            under_used_gpu_hours * share as under_used_gpu_hours,
        
            failed_gpu_hours * share as failed_gpu_hours,
        
            timed_out_gpu_hours * share as timed_out_gpu_hours,
        
            interrupted_gpu_hours * share as interrupted_gpu_hours,
        
            unobserved_gpu_hours * share as unobserved_gpu_hours,
        
            used_gpu_hours * share as used_gpu_hours,
        
        (failed_gpu_hours + timed_out_gpu_hours + interrupted_gpu_hours) * share as lost_gpu_hours,
        
            lost_at_least_gpu_hours * share as lost_at_least_gpu_hours,
        
            inferred_gpu_hours * share as inferred_gpu_hours,
        
            inferred_lost_gpu_hours * share as inferred_lost_gpu_hours,
        
        recorded_down_gpu_hours,
        claimed_gpu_hours * (1 - share) as overcommitted_gpu_hours
    from judged

)

select * from final

-- test: a_machine_has_an_hour_once() error
select machine_key, started_at
from "lake"."main"."gold_machine_hours"
group by machine_key, started_at
having count(*) > 1

-- test: in_range_gold_machine_hours_0__capacity_gpu_hours(capacity_gpu_hours) error
where false
    or capacity_gpu_hours < 0

-- test: in_range_gold_machine_hours_0__down_gpu_hours(down_gpu_hours) error
where false
    or down_gpu_hours < 0

-- test: in_range_gold_machine_hours_0__failed_gpu_hours(failed_gpu_hours) error
where false
    or failed_gpu_hours < 0

-- test: in_range_gold_machine_hours_0__idle_gpu_hours(idle_gpu_hours) error
where false
    or idle_gpu_hours < 0

-- test: in_range_gold_machine_hours_0__inferred_gpu_hours(inferred_gpu_hours) error
where false
    or inferred_gpu_hours < 0

-- test: in_range_gold_machine_hours_0__inferred_lost_gpu_hours(inferred_lost_gpu_hours) error
where false
    or inferred_lost_gpu_hours < 0

-- test: in_range_gold_machine_hours_0__interrupted_gpu_hours(interrupted_gpu_hours) error
where false
    or interrupted_gpu_hours < 0

-- test: in_range_gold_machine_hours_0__lost_at_least_gpu_hours(lost_at_least_gpu_hours) error
where false
    or lost_at_least_gpu_hours < 0

-- test: in_range_gold_machine_hours_0__lost_gpu_hours(lost_gpu_hours) error
where false
    or lost_gpu_hours < 0

-- test: in_range_gold_machine_hours_0__overcommitted_gpu_hours(overcommitted_gpu_hours) error
where false
    or overcommitted_gpu_hours < 0

-- test: in_range_gold_machine_hours_0__recorded_down_gpu_hours(recorded_down_gpu_hours) error
where false
    or recorded_down_gpu_hours < 0

-- test: in_range_gold_machine_hours_0__timed_out_gpu_hours(timed_out_gpu_hours) error
where false
    or timed_out_gpu_hours < 0

-- test: in_range_gold_machine_hours_0__unallocated_gpu_hours(unallocated_gpu_hours) error
where false
    or unallocated_gpu_hours < 0

-- test: in_range_gold_machine_hours_0__under_used_gpu_hours(under_used_gpu_hours) error
where false
    or under_used_gpu_hours < 0

-- test: in_range_gold_machine_hours_0__unknown_gpu_hours(unknown_gpu_hours) error
where false
    or unknown_gpu_hours < 0

-- test: in_range_gold_machine_hours_0__unobserved_gpu_hours(unobserved_gpu_hours) error
where false
    or unobserved_gpu_hours < 0

-- test: in_range_gold_machine_hours_0__used_gpu_hours(used_gpu_hours) error
where false
    or used_gpu_hours < 0

-- test: not_null_gold_machine_hours_capacity_gpu_hours(capacity_gpu_hours) error
where capacity_gpu_hours is null

-- test: not_null_gold_machine_hours_cluster_id(cluster_id) error
where cluster_id is null

-- test: not_null_gold_machine_hours_down_gpu_hours(down_gpu_hours) error
where down_gpu_hours is null

-- test: not_null_gold_machine_hours_dt(dt) error
where dt is null

-- test: not_null_gold_machine_hours_failed_gpu_hours(failed_gpu_hours) error
where failed_gpu_hours is null

-- test: not_null_gold_machine_hours_gpu_type(gpu_type) error
where gpu_type is null

-- test: not_null_gold_machine_hours_idle_gpu_hours(idle_gpu_hours) error
where idle_gpu_hours is null

-- test: not_null_gold_machine_hours_inferred_gpu_hours(inferred_gpu_hours) error
where inferred_gpu_hours is null

-- test: not_null_gold_machine_hours_inferred_lost_gpu_hours(inferred_lost_gpu_hours) error
where inferred_lost_gpu_hours is null

-- test: not_null_gold_machine_hours_interrupted_gpu_hours(interrupted_gpu_hours) error
where interrupted_gpu_hours is null

-- test: not_null_gold_machine_hours_lost_at_least_gpu_hours(lost_at_least_gpu_hours) error
where lost_at_least_gpu_hours is null

-- test: not_null_gold_machine_hours_lost_gpu_hours(lost_gpu_hours) error
where lost_gpu_hours is null

-- test: not_null_gold_machine_hours_machine_key(machine_key) error
where machine_key is null

-- test: not_null_gold_machine_hours_overcommitted_gpu_hours(overcommitted_gpu_hours) error
where overcommitted_gpu_hours is null

-- test: not_null_gold_machine_hours_recorded_down_gpu_hours(recorded_down_gpu_hours) error
where recorded_down_gpu_hours is null

-- test: not_null_gold_machine_hours_started_at(started_at) error
where started_at is null

-- test: not_null_gold_machine_hours_timed_out_gpu_hours(timed_out_gpu_hours) error
where timed_out_gpu_hours is null

-- test: not_null_gold_machine_hours_unallocated_gpu_hours(unallocated_gpu_hours) error
where unallocated_gpu_hours is null

-- test: not_null_gold_machine_hours_under_used_gpu_hours(under_used_gpu_hours) error
where under_used_gpu_hours is null

-- test: not_null_gold_machine_hours_unknown_gpu_hours(unknown_gpu_hours) error
where unknown_gpu_hours is null

-- test: not_null_gold_machine_hours_unobserved_gpu_hours(unobserved_gpu_hours) error
where unobserved_gpu_hours is null

-- test: not_null_gold_machine_hours_used_gpu_hours(used_gpu_hours) error
where used_gpu_hours is null

-- test: the_hours_of_a_machine_add_up() error
select cluster_id, machine_key, dt
from "lake"."main"."gold_machine_hours"
group by cluster_id, machine_key, dt
having
    abs(
        sum(down_gpu_hours + unknown_gpu_hours + unallocated_gpu_hours + idle_gpu_hours + under_used_gpu_hours + failed_gpu_hours + timed_out_gpu_hours + interrupted_gpu_hours + unobserved_gpu_hours + used_gpu_hours)
        - sum(capacity_gpu_hours)
    ) > 0.001 * sum(capacity_gpu_hours)
