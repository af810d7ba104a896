-- Kept for comparison: each worker's window counts once, on the day of its end, whatever its length, and GPU
-- utilisation is a sum over a machine's GPUs. gold_cluster_util_daily is the number to use.

with windows as (

    select * from "lake"."main"."silver_gpu_timeseries"

),

parameters as (

    select * from "landed"."main"."parameters"

),

final as (

    select
        cast(timezone(parameters.reference_time_zone, windows.window_ended_at) as date) as dt,
        avg(windows.busy_gpus) * 100 as avg_gpu_util,
        quantile_cont(windows.busy_gpus, 0.95) * 100 as p95_gpu_util,
        avg(windows.cpu_util_ratio) * 100 as avg_cpu_util
    from windows
    cross join parameters
    where windows.busy_gpus is not null
    group by dt

)

select * from final
order by dt

-- test: in_range_gold_cluster_util_daily_reference_0__avg_cpu_util(avg_cpu_util) error
where false
    or avg_cpu_util < 0

-- test: in_range_gold_cluster_util_daily_reference_0__avg_gpu_util(avg_gpu_util) error
where false
    or avg_gpu_util < 0

-- test: in_range_gold_cluster_util_daily_reference_0__p95_gpu_util(p95_gpu_util) error
where false
    or p95_gpu_util < 0

-- test: not_null_gold_cluster_util_daily_reference_avg_gpu_util(avg_gpu_util) error
where avg_gpu_util is null

-- test: not_null_gold_cluster_util_daily_reference_dt(dt) error
where dt is null

-- test: unique_gold_cluster_util_daily_reference_dt(dt) error
select
    dt as unique_field,
    count(*) as n_records

from "lake"."main"."gold_cluster_util_daily_reference"
where dt is not null
group by dt
having count(*) > 1
