with stretches as (

    select * from __dbt__cte__machine_observations

),

machines as (

    select * from __dbt__cte__observed_machines

),

coverage as (

    select * from "lake"."main"."gold_cluster_coverage_daily"

),

machine_days as (

    select
        stretches.cluster_id,
        stretches.dt,
        stretches.machine_key,
        machines.gpus,
        -- Where nothing says how many there are, each machine counts the same.
        coalesce(machines.cores, 1) as cores,
        sum(case when stretches.busy_gpus is not null then stretches.seconds else 0 end) as gpu_seconds,
        sum(coalesce(stretches.seconds * stretches.busy_gpus, 0)) as busy_gpu_seconds,
        sum(case when stretches.cpu_util_ratio is not null then stretches.seconds else 0 end) as cpu_seconds,
        sum(coalesce(stretches.seconds * stretches.cpu_util_ratio, 0)) as busy_cpu_seconds
    from stretches
    inner join machines on stretches.machine_key = machines.machine_key
    group by all

),

days as (

    select
        cluster_id,
        dt,
        sum(busy_gpu_seconds) / 3600 as busy_gpu_hours,
        sum(busy_gpu_seconds) / nullif(sum(gpu_seconds * gpus), 0) as gpu_util_ratio,
        quantile_cont(busy_gpu_seconds / nullif(gpu_seconds * gpus, 0), 0.95) as p95_machine_gpu_util_ratio,
        sum(busy_cpu_seconds * cores) / nullif(sum(cpu_seconds * cores), 0) as cpu_util_ratio
    from machine_days
    group by cluster_id, dt

),

final as (

    select
        coverage.cluster_id,
        coverage.dt,
        days.gpu_util_ratio,
        days.p95_machine_gpu_util_ratio,
        days.cpu_util_ratio,
        coalesce(days.busy_gpu_hours, 0) as busy_gpu_hours,
        coverage.observed_gpu_hours,
        coverage.capacity_gpu_hours,
        coverage.observed_machines,
        coverage.coverage_ratio,
        coverage.is_poorly_covered
    from coverage
    left join days on coverage.cluster_id = days.cluster_id and coverage.dt = days.dt

)

select * from final
order by cluster_id, dt

-- test: a_cluster_is_utilised_once_a_day() error
select cluster_id, dt
from "lake"."main"."gold_cluster_util_daily"
group by cluster_id, dt
having count(*) > 1

-- test: busy_hours_were_observed() warn
where not (busy_gpu_hours <= observed_gpu_hours * 1.02 + 0.001)

-- test: in_range_gold_cluster_util_daily_0__1_000001__coverage_ratio(coverage_ratio) error
where false
    or coverage_ratio < 0
    or coverage_ratio > 1.000001

-- test: in_range_gold_cluster_util_daily_0__busy_gpu_hours(busy_gpu_hours) error
where false
    or busy_gpu_hours < 0

-- test: in_range_gold_cluster_util_daily_0__capacity_gpu_hours(capacity_gpu_hours) error
where false
    or capacity_gpu_hours < 0

-- test: in_range_gold_cluster_util_daily_0__cpu_util_ratio(cpu_util_ratio) error
where false
    or cpu_util_ratio < 0

-- test: in_range_gold_cluster_util_daily_0__gpu_util_ratio(gpu_util_ratio) error
where false
    or gpu_util_ratio < 0

-- test: in_range_gold_cluster_util_daily_0__observed_gpu_hours(observed_gpu_hours) error
where false
    or observed_gpu_hours < 0

-- test: in_range_gold_cluster_util_daily_0__observed_machines(observed_machines) error
where false
    or observed_machines < 0

-- test: in_range_gold_cluster_util_daily_0__p95_machine_gpu_util_ratio(p95_machine_gpu_util_ratio) error
where false
    or p95_machine_gpu_util_ratio < 0

-- test: not_null_gold_cluster_util_daily_cluster_id(cluster_id) error
where cluster_id is null

-- test: not_null_gold_cluster_util_daily_dt(dt) error
where dt is null

-- test: not_null_gold_cluster_util_daily_is_poorly_covered(is_poorly_covered) error
where is_poorly_covered is null
