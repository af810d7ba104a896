with stretches as (

    select * from __dbt__cte__machine_observations

),

days as (

    select * from __dbt__cte__observed_days

),

machines as (

    select * from __dbt__cte__observed_machines

),

parameters as (

    select * from "landed"."main"."parameters"

),

-- Stretches of a machine do not overlap: time that two windows observe counts once.
machine_days as (

    select
        cluster_id,
        machine_key,
        dt,
        sum(seconds) as seconds
    from stretches
    where busy_gpus is not null
    group by cluster_id, machine_key, dt

),

observed as (

    select
        machine_days.cluster_id,
        machine_days.dt,
        cast(count(*) as bigint) as observed_machines,
        sum(machine_days.seconds * machines.gpus) / 3600 as observed_gpu_hours
    from machine_days
    inner join machines on machine_days.machine_key = machines.machine_key
    where machines.gpus > 0
    group by machine_days.cluster_id, machine_days.dt

),

capacity as (

    select
        cluster_id,
        sum(gpus) as gpus
    from machines
    group by cluster_id

),

covered as (

    select
        days.cluster_id,
        days.dt,
        coalesce(observed.observed_machines, 0) as observed_machines,
        coalesce(observed.observed_gpu_hours, 0) as observed_gpu_hours,
        capacity.gpus * ((epoch_us(days.ended_at) / 1e6) - (epoch_us(days.started_at) / 1e6)) / 3600
            as capacity_gpu_hours
    from days
    inner join capacity on days.cluster_id = capacity.cluster_id
    left join observed on days.cluster_id = observed.cluster_id and days.dt = observed.dt

),

ratios as (

    select
        *,
        observed_gpu_hours / nullif(capacity_gpu_hours, 0) as coverage_ratio
    from covered

),

-- Most workers leave no window, so coverage is low even on a good day; a poor day is one far below the usual.
usual as (

    select
        cluster_id,
        quantile_cont(coverage_ratio, 0.5) as coverage_ratio
    from ratios
    group by cluster_id

),

final as (

    select
        ratios.*,
        coalesce(ratios.coverage_ratio < parameters.poor_coverage_ratio * usual.coverage_ratio, false)
            as is_poorly_covered
    from ratios
    inner join usual on ratios.cluster_id = usual.cluster_id
    cross join parameters

)

select * from final
order by cluster_id, dt

-- test: a_cluster_is_covered_once_a_day() error
select cluster_id, dt
from "lake"."main"."gold_cluster_coverage_daily"
group by cluster_id, dt
having count(*) > 1

-- test: in_range_gold_cluster_coverage_daily_0__1_000001__coverage_ratio(coverage_ratio) error
where false
    or coverage_ratio < 0
    or coverage_ratio > 1.000001

-- test: in_range_gold_cluster_coverage_daily_0__capacity_gpu_hours(capacity_gpu_hours) error
where false
    or capacity_gpu_hours < 0

-- test: in_range_gold_cluster_coverage_daily_0__observed_gpu_hours(observed_gpu_hours) error
where false
    or observed_gpu_hours < 0

-- test: in_range_gold_cluster_coverage_daily_0__observed_machines(observed_machines) error
where false
    or observed_machines < 0

-- test: not_null_gold_cluster_coverage_daily_cluster_id(cluster_id) error
where cluster_id is null

-- test: not_null_gold_cluster_coverage_daily_dt(dt) error
where dt is null

-- test: not_null_gold_cluster_coverage_daily_is_poorly_covered(is_poorly_covered) error
where is_poorly_covered is null

-- test: observed_hours_are_within_capacity() error
where not (observed_gpu_hours <= capacity_gpu_hours * 1.000001)
