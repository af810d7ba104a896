{{ config(materialized='table') }}

select
    date_trunc('day', to_timestamp(ts)) as dt,
    avg(gpu_util_pct) as avg_gpu_util,
    quantile_cont(gpu_util_pct, 0.95) as p95_gpu_util,
    avg(cpu_util_pct) as avg_cpu_util
from {{ ref('silver_gpu_timeseries') }}
where gpu_util_pct is not null
group by dt
order by dt
