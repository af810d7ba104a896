-- An interval sweep over each machine's day: +1 where a window begins, -1 where it ends, running sums in between.

with windows as (

    select * from {{ ref('machine_windows') }}

),

sides as (

    select 1e0 as sign
    union all
    select -1e0 as sign

),

edges as (

    select
        windows.cluster_id,
        windows.machine_key,
        windows.dt,
        case when sides.sign > 0 then windows.begin_seconds else windows.end_seconds end as at_seconds,
        -- Two counts in one running sum, which is what this model costs: those of the CPU in units of 2^20.
        sides.sign * (
            case when windows.busy_gpus is null then 0 else 1 end
            + case when windows.cpu_util_ratio is null then 0 else 1048576 end
        ) as windows,
        coalesce(windows.busy_gpus * sides.sign, 0) as busy_gpus,
        coalesce(windows.cpu_util_ratio * sides.sign, 0) as cpu_util_ratio
    from windows
    cross join sides

),

-- Edges at the same second leave stretches of no length, which fall away.
running as (

    select
        cluster_id,
        machine_key,
        dt,
        at_seconds as begin_seconds,
        lead(at_seconds) over by_time as end_seconds,
        sum(windows) over by_time as windows,
        sum(busy_gpus) over by_time as busy_gpus,
        sum(cpu_util_ratio) over by_time as cpu_util_ratio
    from edges
    window by_time as (
        partition by machine_key, dt order by at_seconds rows between unbounded preceding and current row
    )

),

counted as (

    select
        *,
        windows - round(windows / 1048576) * 1048576 as gpu_windows,
        round(windows / 1048576) as cpu_windows
    from running
    where end_seconds > begin_seconds

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
    from counted
    where gpu_windows > 0.5 or cpu_windows > 0.5

)

select * from final
