with stretches as (

    select * from {{ ref('silver_machine_stretches') }}

),

machines as (

    select * from {{ ref('silver_machines') }}

),

stretch_days as (

    select
        machine_key,
        started_at,
        ended_at,
        busy_gpus,
        cpu_util_ratio,
        {{ each_day(
            local_day('started_at', trace_time_zone()), local_day('ended_at', trace_time_zone())
        ) }} as dt
    from stretches

),

parts as (

    select
        dt,
        machine_key,
        busy_gpus,
        cpu_util_ratio,
        least({{ seconds_of('ended_at') }}, {{ seconds_of(day_begin(next_day('dt'), trace_time_zone())) }})
        - greatest({{ seconds_of('started_at') }}, {{ seconds_of(day_begin('dt', trace_time_zone())) }}) as seconds
    from stretch_days

),

machine_days as (

    select
        parts.dt,
        parts.machine_key,
        machines.gpus,
        machines.cores,
        sum(case when parts.busy_gpus is not null then parts.seconds else 0 end) as gpu_seconds,
        sum(coalesce(parts.seconds * parts.busy_gpus, 0)) as busy_gpu_seconds,
        sum(case when parts.cpu_util_ratio is not null then parts.seconds else 0 end) as cpu_seconds,
        sum(coalesce(parts.seconds * parts.cpu_util_ratio, 0)) as busy_cpu_seconds
    from parts
    inner join machines on parts.machine_key = machines.machine_key
    where parts.seconds > 0
    group by all

),

capacity as (

    select sum(gpus) as gpus from machines

),

parameters as (

    select * from {{ source('landed', 'parameters') }}

),

days as (

    select
        dt,
        cast(count(*) as bigint) as observed_machines,
        sum(busy_gpu_seconds) / 3600 as busy_gpu_hours,
        sum(gpu_seconds * gpus) / 3600 as observed_gpu_hours,
        {{ quantile('busy_gpu_seconds / nullif(gpu_seconds * gpus, 0)', 0.95) }} as p95_machine_gpu_util_ratio,
        sum(busy_cpu_seconds * cores) / nullif(sum(cpu_seconds * cores), 0) as cpu_util_ratio
    from machine_days
    group by dt

),

daily as (

    select
        days.dt,
        days.busy_gpu_hours / nullif(days.observed_gpu_hours, 0) as gpu_util_ratio,
        days.p95_machine_gpu_util_ratio,
        days.cpu_util_ratio,
        days.busy_gpu_hours,
        days.observed_gpu_hours,
        capacity.gpus * (
            {{ seconds_of(day_begin(next_day('days.dt'), trace_time_zone())) }}
            - {{ seconds_of(day_begin('days.dt', trace_time_zone())) }}
        ) / 3600 as capacity_gpu_hours,
        days.observed_machines
    from days
    cross join capacity

),

covered as (

    select
        *,
        observed_gpu_hours / nullif(capacity_gpu_hours, 0) as coverage_ratio
    from daily

),

-- Most workers leave no window, so coverage is low even on a good day; a poor day is one far below the usual.
usual as (

    select {{ quantile('coverage_ratio', 0.5) }} as coverage_ratio from covered

),

final as (

    select
        covered.*,
        coalesce(covered.coverage_ratio < parameters.poor_coverage_ratio * usual.coverage_ratio, false)
            as is_poorly_covered
    from covered
    cross join usual
    cross join parameters

)

select * from final
order by dt
