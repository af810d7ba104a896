-- The windows of machines, cut at the midnights of the trace's own time zone.

with windows as (

    select * from {{ ref('silver_gpu_timeseries') }}

),

days as (

    select * from {{ ref('silver_days') }}

)

select
    windows.machine_key,
    days.dt,
    {{ seconds_of('greatest(windows.window_started_at, days.started_at)') }} as begin_seconds,
    {{ seconds_of('least(windows.window_ended_at, days.ended_at)') }} as end_seconds,
    windows.busy_gpus,
    windows.cpu_util_ratio
from windows
inner join days on windows.window_started_at < days.ended_at and windows.window_ended_at > days.started_at
