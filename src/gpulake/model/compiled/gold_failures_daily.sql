with holdings as (

    select
        *,
        (epoch_us(held_until) / 1e6) - (epoch_us(lost_from) / 1e6) as lost_seconds
    from "lake"."main"."silver_holdings"
    where lost_from is not null

),

days as (

    select * from "lake"."main"."silver_days"

),

final as (

    select
        holdings.cluster_id,
        days.dt,
        holdings.status,
        coalesce(holdings.gpu_type, 'unknown') as gpu_type,
        cast(count(*) as bigint) as attempts,
        cast(count(distinct holdings.job_key) as bigint) as jobs,
        cast(count(distinct holdings.machine_key) as bigint) as machines,
        sum(holdings.gpus * holdings.lost_seconds) / 3600 as lost_gpu_hours,
        sum(case when holdings.has_checkpoint then holdings.gpus * holdings.lost_seconds else 0 end) / 3600
            as lost_at_least_gpu_hours,
        sum(case when holdings.is_inferred then holdings.gpus * holdings.lost_seconds else 0 end) / 3600
            as inferred_lost_gpu_hours
    from holdings
    -- On the day of its end, whole.
    inner join days
        on
            holdings.cluster_id = days.cluster_id
            and holdings.held_until >= days.started_at
            and holdings.held_until < days.ended_at
            and holdings.held_until >= days.observed_from
            and holdings.held_until <= days.observed_until
    group by holdings.cluster_id, days.dt, holdings.status, coalesce(holdings.gpu_type, 'unknown')

)

select * from final
order by cluster_id, dt, gpu_type, status

-- test: a_class_of_failure_has_a_day_once() error
select cluster_id, dt, status, gpu_type
from "lake"."main"."gold_failures_daily"
group by cluster_id, dt, status, gpu_type
having count(*) > 1

-- test: accepted_values_gold_failures_daily_status__failed__interrupted__timeout__node_fail(status) error
where status not in ('failed', 'interrupted', 'timeout', 'node_fail')

-- test: in_range_gold_failures_daily_0__1000000000000_0__attempts(attempts) error
where false
    or attempts < 0
    or attempts > 1000000000000.0

-- test: in_range_gold_failures_daily_0__inferred_lost_gpu_hours(inferred_lost_gpu_hours) error
where false
    or inferred_lost_gpu_hours < 0

-- test: in_range_gold_failures_daily_0__jobs(jobs) error
where false
    or jobs < 0

-- test: in_range_gold_failures_daily_0__lost_at_least_gpu_hours(lost_at_least_gpu_hours) error
where false
    or lost_at_least_gpu_hours < 0

-- test: in_range_gold_failures_daily_0__lost_gpu_hours(lost_gpu_hours) error
where false
    or lost_gpu_hours < 0

-- test: in_range_gold_failures_daily_0__machines(machines) error
where false
    or machines < 0

-- test: not_null_gold_failures_daily_attempts(attempts) error
where attempts is null

-- test: not_null_gold_failures_daily_cluster_id(cluster_id) error
where cluster_id is null

-- test: not_null_gold_failures_daily_dt(dt) error
where dt is null

-- test: not_null_gold_failures_daily_gpu_type(gpu_type) error
where gpu_type is null

-- test: not_null_gold_failures_daily_inferred_lost_gpu_hours(inferred_lost_gpu_hours) error
where inferred_lost_gpu_hours is null

-- test: not_null_gold_failures_daily_jobs(jobs) error
where jobs is null

-- test: not_null_gold_failures_daily_lost_at_least_gpu_hours(lost_at_least_gpu_hours) error
where lost_at_least_gpu_hours is null

-- test: not_null_gold_failures_daily_lost_gpu_hours(lost_gpu_hours) error
where lost_gpu_hours is null

-- test: not_null_gold_failures_daily_machines(machines) error
where machines is null

-- test: not_null_gold_failures_daily_status(status) error
where status is null
