-- The windows of machines, cut at the midnights of the cluster's own time zone.

with windows as (

    select * from {{ ref('silver_gpu_timeseries') }}

),

days as (

    select * from {{ ref('window_days') }}

)

select
    windows.cluster_id,
    windows.machine_key,
    days.dt,
    {{ seconds_of('greatest(windows.window_started_at, days.started_at)') }} as begin_seconds,
    {{ seconds_of('least(windows.window_ended_at, days.ended_at)') }} as end_seconds,
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
