with machine_hours as (

    select * from "lake"."main"."gold_machine_hours"

),

final as (

    select
        cluster_id,
        started_at,
        dt,
        gpu_type,
        sum(capacity_gpu_hours) as capacity_gpu_hours,
        sum(down_gpu_hours) as down_gpu_hours, sum(unknown_gpu_hours) as unknown_gpu_hours, sum(unallocated_gpu_hours) as unallocated_gpu_hours, sum(idle_gpu_hours) as idle_gpu_hours, sum(under_used_gpu_hours) as under_used_gpu_hours, sum(failed_gpu_hours) as failed_gpu_hours, sum(timed_out_gpu_hours) as timed_out_gpu_hours, sum(interrupted_gpu_hours) as interrupted_gpu_hours, sum(unobserved_gpu_hours) as unobserved_gpu_hours, sum(used_gpu_hours) as used_gpu_hours, sum(lost_gpu_hours) as lost_gpu_hours, sum(lost_at_least_gpu_hours) as lost_at_least_gpu_hours, sum(inferred_gpu_hours) as inferred_gpu_hours, sum(inferred_lost_gpu_hours) as inferred_lost_gpu_hours, sum(recorded_down_gpu_hours) as recorded_down_gpu_hours, sum(overcommitted_gpu_hours) as overcommitted_gpu_hours
    from machine_hours
    group by cluster_id, started_at, dt, gpu_type

)

select * from final
order by cluster_id, started_at, gpu_type

-- test: a_type_has_an_hour_once() error
select cluster_id, started_at, gpu_type
from "lake"."main"."gold_ledger_hourly"
group by cluster_id, started_at, gpu_type
having count(*) > 1

-- test: in_range_gold_ledger_hourly_0__capacity_gpu_hours(capacity_gpu_hours) error
where false
    or capacity_gpu_hours < 0

-- test: in_range_gold_ledger_hourly_0__down_gpu_hours(down_gpu_hours) error
where false
    or down_gpu_hours < 0

-- test: in_range_gold_ledger_hourly_0__failed_gpu_hours(failed_gpu_hours) error
where false
    or failed_gpu_hours < 0

-- test: in_range_gold_ledger_hourly_0__idle_gpu_hours(idle_gpu_hours) error
where false
    or idle_gpu_hours < 0

-- test: in_range_gold_ledger_hourly_0__inferred_gpu_hours(inferred_gpu_hours) error
where false
    or inferred_gpu_hours < 0

-- test: in_range_gold_ledger_hourly_0__inferred_lost_gpu_hours(inferred_lost_gpu_hours) error
where false
    or inferred_lost_gpu_hours < 0

-- test: in_range_gold_ledger_hourly_0__interrupted_gpu_hours(interrupted_gpu_hours) error
where false
    or interrupted_gpu_hours < 0

-- test: in_range_gold_ledger_hourly_0__lost_at_least_gpu_hours(lost_at_least_gpu_hours) error
where false
    or lost_at_least_gpu_hours < 0

-- test: in_range_gold_ledger_hourly_0__lost_gpu_hours(lost_gpu_hours) error
where false
    or lost_gpu_hours < 0

-- test: in_range_gold_ledger_hourly_0__overcommitted_gpu_hours(overcommitted_gpu_hours) error
where false
    or overcommitted_gpu_hours < 0

-- test: in_range_gold_ledger_hourly_0__recorded_down_gpu_hours(recorded_down_gpu_hours) error
where false
    or recorded_down_gpu_hours < 0

-- test: in_range_gold_ledger_hourly_0__timed_out_gpu_hours(timed_out_gpu_hours) error
where false
    or timed_out_gpu_hours < 0

-- test: in_range_gold_ledger_hourly_0__unallocated_gpu_hours(unallocated_gpu_hours) error
where false
    or unallocated_gpu_hours < 0

-- test: in_range_gold_ledger_hourly_0__under_used_gpu_hours(under_used_gpu_hours) error
where false
    or under_used_gpu_hours < 0

-- test: in_range_gold_ledger_hourly_0__unknown_gpu_hours(unknown_gpu_hours) error
where false
    or unknown_gpu_hours < 0

-- test: in_range_gold_ledger_hourly_0__unobserved_gpu_hours(unobserved_gpu_hours) error
where false
    or unobserved_gpu_hours < 0

-- test: in_range_gold_ledger_hourly_0__used_gpu_hours(used_gpu_hours) error
where false
    or used_gpu_hours < 0

-- test: not_null_gold_ledger_hourly_capacity_gpu_hours(capacity_gpu_hours) error
where capacity_gpu_hours is null

-- test: not_null_gold_ledger_hourly_cluster_id(cluster_id) error
where cluster_id is null

-- test: not_null_gold_ledger_hourly_down_gpu_hours(down_gpu_hours) error
where down_gpu_hours is null

-- test: not_null_gold_ledger_hourly_dt(dt) error
where dt is null

-- test: not_null_gold_ledger_hourly_failed_gpu_hours(failed_gpu_hours) error
where failed_gpu_hours is null

-- test: not_null_gold_ledger_hourly_gpu_type(gpu_type) error
where gpu_type is null

-- test: not_null_gold_ledger_hourly_idle_gpu_hours(idle_gpu_hours) error
where idle_gpu_hours is null

-- test: not_null_gold_ledger_hourly_inferred_gpu_hours(inferred_gpu_hours) error
where inferred_gpu_hours is null

-- test: not_null_gold_ledger_hourly_inferred_lost_gpu_hours(inferred_lost_gpu_hours) error
where inferred_lost_gpu_hours is null

-- test: not_null_gold_ledger_hourly_interrupted_gpu_hours(interrupted_gpu_hours) error
where interrupted_gpu_hours is null

-- test: not_null_gold_ledger_hourly_lost_at_least_gpu_hours(lost_at_least_gpu_hours) error
where lost_at_least_gpu_hours is null

-- test: not_null_gold_ledger_hourly_lost_gpu_hours(lost_gpu_hours) error
where lost_gpu_hours is null

-- test: not_null_gold_ledger_hourly_overcommitted_gpu_hours(overcommitted_gpu_hours) error
where overcommitted_gpu_hours is null

-- test: not_null_gold_ledger_hourly_recorded_down_gpu_hours(recorded_down_gpu_hours) error
where recorded_down_gpu_hours is null

-- test: not_null_gold_ledger_hourly_started_at(started_at) error
where started_at is null

-- test: not_null_gold_ledger_hourly_timed_out_gpu_hours(timed_out_gpu_hours) error
where timed_out_gpu_hours is null

-- test: not_null_gold_ledger_hourly_unallocated_gpu_hours(unallocated_gpu_hours) error
where unallocated_gpu_hours is null

-- test: not_null_gold_ledger_hourly_under_used_gpu_hours(under_used_gpu_hours) error
where under_used_gpu_hours is null

-- test: not_null_gold_ledger_hourly_unknown_gpu_hours(unknown_gpu_hours) error
where unknown_gpu_hours is null

-- test: not_null_gold_ledger_hourly_unobserved_gpu_hours(unobserved_gpu_hours) error
where unobserved_gpu_hours is null

-- test: not_null_gold_ledger_hourly_used_gpu_hours(used_gpu_hours) error
where used_gpu_hours is null

-- test: the_hourly_ledger_closes() error
select cluster_id, started_at, gpu_type
from "lake"."main"."gold_ledger_hourly"
group by cluster_id, started_at, gpu_type
having
    abs(
        sum(down_gpu_hours + unknown_gpu_hours + unallocated_gpu_hours + idle_gpu_hours + under_used_gpu_hours + failed_gpu_hours + timed_out_gpu_hours + interrupted_gpu_hours + unobserved_gpu_hours + used_gpu_hours)
        - sum(capacity_gpu_hours)
    ) > 0.001 * sum(capacity_gpu_hours)
