with stretches as (

    select * from {{ ref('machine_observations') }}

),

machines as (

    select * from {{ ref('observed_machines') }}

),

hours as (

    select * from {{ ref('silver_hours') }}

),

clusters as (

    select * from {{ ref('silver_clusters') }}

),

spans as (

    select
        stretches.cluster_id,
        machines.gpus,
        -- Where nothing says how many there are, each machine counts the same.
        coalesce(machines.cores, 1) as cores,
        stretches.busy_gpus,
        stretches.cpu_util_ratio,
        clusters.hour_shift_seconds as shift,
        {{ seconds_of(latest(['stretches.started_at', 'clusters.observed_from'])) }} as begin_seconds,
        {{ seconds_of(earliest(['stretches.ended_at', 'clusters.observed_until'])) }} as end_seconds
    from stretches
    inner join machines on stretches.machine_key = machines.machine_key
    inner join clusters on stretches.cluster_id = clusters.cluster_id

),

pieces as (

    select
        *,
        {{ each_number(
            hour_number('begin_seconds', 'shift'), hour_number('end_seconds', 'shift') ~ ' + 1'
        ) }} as hour_number
    from spans

),

timed as (

    select
        *,
        {{ hours_within('begin_seconds', 'end_seconds', 'hour_number', 'shift') }} as piece_hours
    from pieces

),

seen as (

    select
        cluster_id,
        hour_number,
        -- Rounded: the last digits of a sum of fractions depend on their order.
        round(sum(case when busy_gpus is not null then piece_hours * gpus else 0 end), 12) as observed_gpu_hours,
        round(sum(coalesce(piece_hours * busy_gpus, 0)), 12) as busy_gpu_hours,
        sum(case when cpu_util_ratio is not null then piece_hours * cores else 0 end) as observed_core_hours,
        sum(coalesce(piece_hours * cores * cpu_util_ratio, 0)) as busy_core_hours
    from timed
    where piece_hours > 0
    group by cluster_id, hour_number

),

capacity as (

    select
        cluster_id,
        sum(gpus) as gpus
    from machines
    group by cluster_id

),

final as (

    select
        hours.cluster_id,
        hours.started_at,
        hours.dt,
        seen.busy_gpu_hours / nullif(seen.observed_gpu_hours, 0) as gpu_util_ratio,
        seen.busy_core_hours / nullif(seen.observed_core_hours, 0) as cpu_util_ratio,
        coalesce(seen.busy_gpu_hours, 0) as busy_gpu_hours,
        coalesce(seen.observed_gpu_hours, 0) as observed_gpu_hours,
        capacity.gpus * hours.observed_seconds / 3600 as capacity_gpu_hours,
        coalesce(seen.observed_gpu_hours, 0) / nullif(capacity.gpus * hours.observed_seconds / 3600, 0)
            as coverage_ratio
    from hours
    inner join capacity on hours.cluster_id = capacity.cluster_id
    left join seen on hours.cluster_id = seen.cluster_id and hours.hour_number = seen.hour_number
    where hours.observed_seconds > 0

)

select * from final
order by cluster_id, started_at
