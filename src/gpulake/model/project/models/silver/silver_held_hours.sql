-- Machines are distinguished by their key alone, whatever their cluster: fewer and shorter keys to group by.

{# Holdings whose hours count alike are of one kind, a number made of these. A kind has three sums, all kinds have ten,
   and the engine keeps as many for each of millions of pieces before it knows which belong together. #}
{% set uses = ['unobserved', 'idle', 'used'] %}
{% set checkpoint = 16 %}
{% set inferred = 32 %}

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

instances as (

    select * from {{ ref('silver_instances') }}
    where machine_key is not null

),

unmeasured as (

    select
        instances.machine_key,
        clusters.hour_shift_seconds as shift,
        {{ seconds_of(latest(['coalesce(instances.started_at, instances.ended_at)', 'clusters.observed_from'])) }}
            as begin_seconds,
        {{ seconds_of(earliest(['coalesce(instances.ended_at, instances.started_at)', 'clusters.observed_until'])) }}
            as end_seconds
    from instances
    inner join clusters on instances.cluster_id = clusters.cluster_id
    where
        instances.gpus is null
        and instances.status != 'waiting'
        and coalesce(instances.started_at, instances.ended_at) <= clusters.observed_until
        and {{ latest(['instances.started_at', 'instances.ended_at']) }} >= clusters.observed_from

),

intervals as (

    select
        holdings.machine_key,
        {{ piece_columns() }},
        case when holdings.use_bucket = 'used' then least(holdings.used_gpus, holdings.gpus) else 0 end as busy_gpus,
        cast(
            case holdings.use_bucket
                {% for use in uses %}
                    when '{{ use }}' then {{ loop.index0 }}
                {% endfor %}
            end
            + case holdings.bucket
                {% for loss in lost_buckets() %}
                    when '{{ loss }}' then {{ loop.index * 4 }}
                {% endfor %}
                else 0
            end
            + case when holdings.has_checkpoint then {{ checkpoint }} else 0 end
            + case when holdings.is_inferred then {{ inferred }} else 0 end
            as smallint
        ) as kind
    from holdings
    inner join clusters on holdings.cluster_id = clusters.cluster_id

),

pieces as (

    select
        *,
        {{ each_number(
            hour_number('begin_seconds', 'shift'), 'cast(ceil((end_seconds + shift) / 3600) as bigint)'
        ) }} as hour_number
    from intervals
    where end_seconds > begin_seconds

),

timed as (

    select
        *,
        {{ hours_within('begin_seconds', 'end_seconds', 'hour_number', 'shift') }} as hours,
        greatest(
            {{ hours_within('greatest(begin_seconds, lost_seconds)', 'end_seconds', 'hour_number', 'shift') }}, 0
        ) as lost_hours
    from pieces

),

kinds as (

    select
        machine_key,
        hour_number,
        kind,
        sum(lost_hours * gpus) as lost,
        sum((hours - lost_hours) * (gpus - busy_gpus)) as unused,
        sum((hours - lost_hours) * busy_gpus) as used
    from timed
    group by machine_key, hour_number, kind

),

held as (

    select
        machine_key,
        hour_number,
        {% for bucket in uses[:2] + ['under_used'] %}
            sum(case when kind & 3 = {{ loop.index0 }} then unused else 0 end) as {{ bucket }}_gpu_hours,
        {% endfor %}
        sum(used) as used_gpu_hours,
        {% for loss in lost_buckets() %}
            sum(case when kind & 12 = {{ loop.index * 4 }} then lost else 0 end) as {{ loss }}_gpu_hours,
        {% endfor %}
        sum(case when kind & {{ checkpoint }} > 0 then lost else 0 end) as lost_at_least_gpu_hours,
        sum(case when kind & {{ inferred }} > 0 then lost + unused + used else 0 end) as inferred_gpu_hours,
        sum(case when kind & {{ inferred }} > 0 then lost else 0 end) as inferred_lost_gpu_hours
    from kinds
    group by machine_key, hour_number

),

-- CPU work is a sign of life, too. Work of which nobody knows what it asked for holds nobody knows how much.
others as (

    {% for moment in ['started_at', 'ended_at'] %}
        select
            instances.machine_key,
            {{ hour_number(seconds_of('instances.' ~ moment), 'clusters.hour_shift_seconds') }} as hour_number,
            false as has_unknown_demand
        from instances
        inner join clusters on instances.cluster_id = clusters.cluster_id
        where instances.{{ moment }} is not null and instances.gpus = 0

        union all
    {% endfor %}
    select
        machine_key,
        {{ each_number(
            hour_number('begin_seconds', 'shift'),
            'greatest(' ~ hour_number('begin_seconds', 'shift') ~ ', ' ~ hour_number('end_seconds', 'shift') ~ ') + 1'
        ) }} as hour_number,
        true as has_unknown_demand
    from unmeasured

),

signs as (

    select
        machine_key,
        hour_number,
        bool_or(has_unknown_demand) as has_unknown_demand
    from others
    group by machine_key, hour_number

),

known as (

    select
        coalesce(held.machine_key, signs.machine_key) as machine_key,
        coalesce(held.hour_number, signs.hour_number) as hour_number,
        {% for amount in held_buckets() + held_notes() %}
            coalesce(held.{{ amount }}_gpu_hours, 0) as {{ amount }}_gpu_hours,
        {% endfor %}
        coalesce(signs.has_unknown_demand, false) as has_unknown_demand
    from held
    full join signs on held.machine_key = signs.machine_key and held.hour_number = signs.hour_number

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
