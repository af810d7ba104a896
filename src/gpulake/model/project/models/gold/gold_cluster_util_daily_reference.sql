-- Kept for comparison: each worker's window counts once, on the day of its end, whatever its length, and GPU
-- utilisation is a sum over a machine's GPUs. gold_cluster_util_daily is the number to use.

with windows as (

    select * from {{ ref('silver_gpu_timeseries') }}

),

parameters as (

    select * from {{ source('landed', 'parameters') }}

),

final as (

    select
        {{ local_day('windows.window_ended_at', 'parameters.reference_time_zone') }} as dt,
        avg(windows.busy_gpus) * 100 as avg_gpu_util,
        {{ quantile('windows.busy_gpus', 0.95) }} * 100 as p95_gpu_util,
        avg(windows.cpu_util_ratio) * 100 as avg_cpu_util
    from windows
    cross join parameters
    where windows.busy_gpus is not null
    group by dt

)

select * from final
order by dt
