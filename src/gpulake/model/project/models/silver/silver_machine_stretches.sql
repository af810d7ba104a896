-- An interval sweep: +1 where a window begins, -1 where it ends, and running sums in between.

with windows as (

    select
        machine_key,
        {{ seconds_of('window_started_at') }} as begin_seconds,
        {{ seconds_of('window_ended_at') }} as end_seconds,
        busy_gpus,
        cpu_util_ratio
    from {{ ref('silver_gpu_timeseries') }}
    where window_started_at < window_ended_at

),

edges as (

    select
        machine_key,
        begin_seconds as at_seconds,
        case when busy_gpus is not null then 1 else 0 end as gpu_windows,
        coalesce(busy_gpus, 0) as busy_gpus,
        case when cpu_util_ratio is not null then 1 else 0 end as cpu_windows,
        coalesce(cpu_util_ratio, 0) as cpu_util_ratio
    from windows

    union all

    select
        machine_key,
        end_seconds as at_seconds,
        case when busy_gpus is not null then -1 else 0 end as gpu_windows,
        -coalesce(busy_gpus, 0) as busy_gpus,
        case when cpu_util_ratio is not null then -1 else 0 end as cpu_windows,
        -coalesce(cpu_util_ratio, 0) as cpu_util_ratio
    from windows

),

steps as (

    select
        machine_key,
        at_seconds,
        sum(gpu_windows) as gpu_windows,
        sum(busy_gpus) as busy_gpus,
        sum(cpu_windows) as cpu_windows,
        sum(cpu_util_ratio) as cpu_util_ratio
    from edges
    group by machine_key, at_seconds

),

running as (

    select
        machine_key,
        at_seconds as begin_seconds,
        lead(at_seconds) over by_time as end_seconds,
        sum(gpu_windows) over by_time as gpu_windows,
        sum(busy_gpus) over by_time as busy_gpus,
        sum(cpu_windows) over by_time as cpu_windows,
        sum(cpu_util_ratio) over by_time as cpu_util_ratio
    from steps
    window by_time as (partition by machine_key order by at_seconds)

),

-- Each window estimates the same machine, so several at once are averaged, not added.
final as (

    select
        machine_key,
        {{ instant('begin_seconds') }} as started_at,
        {{ instant('end_seconds') }} as ended_at,
        end_seconds - begin_seconds as seconds,
        cast(greatest(gpu_windows, cpu_windows) as bigint) as windows,
        case when gpu_windows > 0 then greatest(busy_gpus / gpu_windows, 0) end as busy_gpus,
        case when cpu_windows > 0 then greatest(cpu_util_ratio / cpu_windows, 0) end as cpu_util_ratio
    from running
    where end_seconds is not null and (gpu_windows > 0 or cpu_windows > 0)

)

select * from final
