-- Machines are told apart by their key alone, whatever their cluster: fewer and shorter keys to group by.

with holdings as (

    select * from {{ ref('silver_holdings') }}
    where held_seconds > 0

),

capacity as (

    select * from {{ ref('silver_capacity') }}

),

clusters as (

    select * from {{ ref('silver_clusters') }}

),

hours as (

    select * from {{ ref('silver_hours') }}

),

-- CPU work is a sign of life, too.
cpu_work as (

    select * from {{ ref('silver_instances') }}
    where gpus = 0 and machine_key is not null

),

intervals as (

    select
        holdings.machine_key,
        holdings.bucket,
        holdings.gpus,
        case when holdings.bucket = 'used' then least(holdings.used_gpus, holdings.gpus) else 0 end as productive_gpus,
        holdings.is_inferred,
        clusters.hour_shift_seconds as shift,
        {{ seconds_of(latest(['holdings.held_from', 'clusters.observed_from'])) }} as begin_seconds,
        {{ seconds_of(earliest(['holdings.held_until', 'clusters.observed_until'])) }} as end_seconds
    from holdings
    inner join clusters on holdings.cluster_id = clusters.cluster_id

),

pieces as (

    select
        *,
        {{ each_number(
            hour_number('begin_seconds', 'shift'), hour_number('end_seconds', 'shift') ~ ' + 1'
        ) }} as hour_number
    from intervals

),

timed as (

    select
        *,
        {{ hours_within('begin_seconds', 'end_seconds', 'hour_number', 'shift') }} as hours
    from pieces

),

held as (

    select
        machine_key,
        hour_number,
        sum(case when bucket = 'idle' then hours * gpus else 0 end) as idle_gpu_hours,
        sum(case when bucket = 'used' then hours * (gpus - productive_gpus) else 0 end) as under_used_gpu_hours,
        sum(case when bucket = 'lost' then hours * gpus else 0 end) as lost_gpu_hours,
        sum(case when bucket = 'unobserved' then hours * gpus else 0 end) as unobserved_gpu_hours,
        sum(hours * productive_gpus) as productive_gpu_hours,
        sum(case when is_inferred then hours * gpus else 0 end) as inferred_gpu_hours
    from timed
    where hours > 0
    group by machine_key, hour_number

),

signs as (

    {% for moment in ['started_at', 'ended_at'] %}
        select
            cpu_work.machine_key,
            {{ hour_number(seconds_of('cpu_work.' ~ moment), 'clusters.hour_shift_seconds') }} as hour_number
        from cpu_work
        inner join clusters on cpu_work.cluster_id = clusters.cluster_id
        where cpu_work.{{ moment }} is not null
        {{ 'union distinct' if not loop.last }}
    {% endfor %}

),

-- What both know of is held.
known as (

    select * from held

    union all

    select
        signs.machine_key,
        signs.hour_number,
        0e0 as idle_gpu_hours,
        0e0 as under_used_gpu_hours,
        0e0 as lost_gpu_hours,
        0e0 as unobserved_gpu_hours,
        0e0 as productive_gpu_hours,
        0e0 as inferred_gpu_hours
    from signs
    left join held on signs.machine_key = held.machine_key and signs.hour_number = held.hour_number
    where held.machine_key is null

),

final as (

    select
        capacity.cluster_id,
        hours.dt,
        known.*
    from known
    inner join capacity on known.machine_key = capacity.machine_key
    inner join hours on capacity.cluster_id = hours.cluster_id and known.hour_number = hours.hour_number

)

select * from final
