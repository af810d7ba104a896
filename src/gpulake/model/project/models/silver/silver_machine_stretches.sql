-- An interval sweep over each machine's day: +1 where a window begins, -1 where it ends, running sums in between.

with windows as (

    select * from {{ ref('machine_windows') }}

),

edges as (

    select
        cluster_id,
        machine_key,
        dt,
        begin_seconds as at_seconds,
        case when busy_gpus is null then 0e0 else 1e0 end as gpu_windows,
        coalesce(busy_gpus, 0) as busy_gpus,
        case when cpu_util_ratio is null then 0e0 else 1e0 end as cpu_windows,
        coalesce(cpu_util_ratio, 0) as cpu_util_ratio
    from windows

    union all

    select
        cluster_id,
        machine_key,
        dt,
        end_seconds as at_seconds,
        case when busy_gpus is null then 0e0 else -1e0 end as gpu_windows,
        -coalesce(busy_gpus, 0) as busy_gpus,
        case when cpu_util_ratio is null then 0e0 else -1e0 end as cpu_windows,
        -coalesce(cpu_util_ratio, 0) as cpu_util_ratio
    from windows

),

-- Edges at the same second leave stretches of no length, which fall away.
running as (

    select
        cluster_id,
        machine_key,
        dt,
        at_seconds as begin_seconds,
        lead(at_seconds) over by_time as end_seconds,
        sum(gpu_windows) over by_time as gpu_windows,
        sum(busy_gpus) over by_time as busy_gpus,
        sum(cpu_windows) over by_time as cpu_windows,
        sum(cpu_util_ratio) over by_time as cpu_util_ratio
    from edges
    window by_time as (
        partition by machine_key, dt order by at_seconds rows between unbounded preceding and current row
    )

),

-- Each window estimates the same machine, so several at once are averaged, not added.
final as (

    select
        cluster_id,
        machine_key,
        dt,
        {{ instant('begin_seconds') }} as started_at,
        {{ instant('end_seconds') }} as ended_at,
        end_seconds - begin_seconds as seconds,
        case when gpu_windows > 0.5 then greatest(busy_gpus / gpu_windows, 0) end as busy_gpus,
        case when cpu_windows > 0.5 then greatest(cpu_util_ratio / cpu_windows, 0) end as cpu_util_ratio
    from running
    where end_seconds > begin_seconds and (gpu_windows > 0.5 or cpu_windows > 0.5)

)

select * from final
