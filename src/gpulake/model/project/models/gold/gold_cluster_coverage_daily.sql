with stretches as (

    select * from {{ ref('machine_observations') }}

),

days as (

    select * from {{ ref('observed_days') }}

),

machines as (

    select * from {{ ref('observed_machines') }}

),

parameters as (

    select * from {{ source('landed', 'parameters') }}

),

-- Stretches of a machine do not overlap: time that two windows observe counts once.
machine_days as (

    select
        cluster_id,
        machine_key,
        dt,
        sum(seconds) as seconds
    from stretches
    where busy_gpus is not null
    group by cluster_id, machine_key, dt

),

observed as (

    select
        machine_days.cluster_id,
        machine_days.dt,
        cast(count(*) as bigint) as observed_machines,
        sum(machine_days.seconds * machines.gpus) / 3600 as observed_gpu_hours
    from machine_days
    inner join machines on machine_days.machine_key = machines.machine_key
    where machines.gpus > 0
    group by machine_days.cluster_id, machine_days.dt

),

capacity as (

    select
        cluster_id,
        sum(gpus) as gpus
    from machines
    group by cluster_id

),

covered as (

    select
        days.cluster_id,
        days.dt,
        coalesce(observed.observed_machines, 0) as observed_machines,
        coalesce(observed.observed_gpu_hours, 0) as observed_gpu_hours,
        capacity.gpus * ({{ seconds_of('days.ended_at') }} - {{ seconds_of('days.started_at') }}) / 3600
            as capacity_gpu_hours
    from days
    inner join capacity on days.cluster_id = capacity.cluster_id
    left join observed on days.cluster_id = observed.cluster_id and days.dt = observed.dt

),

ratios as (

    select
        *,
        observed_gpu_hours / nullif(capacity_gpu_hours, 0) as coverage_ratio
    from covered

),

-- Most workers leave no window, so coverage is low even on a good day; a poor day is one far below the usual.
usual as (

    select
        cluster_id,
        {{ quantile('coverage_ratio', 0.5) }} as coverage_ratio
    from ratios
    group by cluster_id

),

final as (

    select
        ratios.*,
        coalesce(ratios.coverage_ratio < parameters.poor_coverage_ratio * usual.coverage_ratio, false)
            as is_poorly_covered
    from ratios
    inner join usual on ratios.cluster_id = usual.cluster_id
    cross join parameters

)

select * from final
order by cluster_id, dt
