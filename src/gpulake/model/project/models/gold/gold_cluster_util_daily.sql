with stretches as (

    select * from {{ ref('machine_observations') }}

),

machines as (

    select * from {{ ref('observed_machines') }}

),

coverage as (

    select * from {{ ref('gold_cluster_coverage_daily') }}

),

machine_days as (

    select
        stretches.cluster_id,
        stretches.dt,
        stretches.machine_key,
        machines.gpus,
        -- Where nothing says how many there are, each machine counts the same.
        coalesce(machines.cores, 1) as cores,
        sum(case when stretches.busy_gpus is not null then stretches.seconds else 0 end) as gpu_seconds,
        sum(coalesce(stretches.seconds * stretches.busy_gpus, 0)) as busy_gpu_seconds,
        sum(case when stretches.cpu_util_ratio is not null then stretches.seconds else 0 end) as cpu_seconds,
        sum(coalesce(stretches.seconds * stretches.cpu_util_ratio, 0)) as busy_cpu_seconds
    from stretches
    inner join machines on stretches.machine_key = machines.machine_key
    group by all

),

days as (

    select
        cluster_id,
        dt,
        sum(busy_gpu_seconds) / 3600 as busy_gpu_hours,
        sum(busy_gpu_seconds) / nullif(sum(gpu_seconds * gpus), 0) as gpu_util_ratio,
        {{ quantile('busy_gpu_seconds / nullif(gpu_seconds * gpus, 0)', 0.95) }} as p95_machine_gpu_util_ratio,
        sum(busy_cpu_seconds * cores) / nullif(sum(cpu_seconds * cores), 0) as cpu_util_ratio
    from machine_days
    group by cluster_id, dt

),

final as (

    select
        coverage.cluster_id,
        coverage.dt,
        days.gpu_util_ratio,
        days.p95_machine_gpu_util_ratio,
        days.cpu_util_ratio,
        coalesce(days.busy_gpu_hours, 0) as busy_gpu_hours,
        coverage.observed_gpu_hours,
        coverage.capacity_gpu_hours,
        coverage.observed_machines,
        coverage.coverage_ratio,
        coverage.is_poorly_covered
    from coverage
    left join days on coverage.cluster_id = days.cluster_id and coverage.dt = days.dt

)

select * from final
order by cluster_id, dt
