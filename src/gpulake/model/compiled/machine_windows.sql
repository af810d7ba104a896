-- The windows of machines, cut at the midnights of the cluster's own time zone.

with windows as (

    select * from "lake"."main"."silver_gpu_timeseries"

),

days as (

    select * from __dbt__cte__window_days

)

select
    windows.cluster_id,
    windows.machine_key,
    days.dt,
    (epoch_us(greatest(windows.window_started_at, days.started_at)) / 1e6) as begin_seconds,
    (epoch_us(least(windows.window_ended_at, days.ended_at)) / 1e6) as end_seconds,
    windows.busy_gpus,
    windows.cpu_util_ratio
from windows
inner join days
    on
        windows.cluster_id = days.cluster_id
        and windows.window_started_at < days.ended_at
        and windows.window_ended_at > days.started_at
-- One that ends before it begins would hide others of its time.
where windows.window_ended_at > windows.window_started_at
