with holdings as (

    select * from {{ ref('silver_holdings') }}

),

instances as (

    select * from {{ ref('silver_instances') }}
    where machine_key is not null

),

clusters as (

    select * from {{ ref('silver_clusters') }}

),

hours as (

    select * from {{ ref('silver_hours') }}

),

intervals as (

    select
        holdings.cluster_id,
        holdings.machine_key,
        clusters.hour_shift_seconds as shift,
        {{ seconds_of(latest(['holdings.held_from', 'clusters.observed_from'])) }} as begin_seconds,
        {{ seconds_of(earliest(['holdings.held_until', 'clusters.observed_until'])) }} as end_seconds,
        case when holdings.bucket = 'idle' then holdings.gpus else 0 end as idle_gpus,
        case when holdings.bucket = 'used' then holdings.gpus else 0 end as sensed_gpus,
        case when holdings.bucket = 'used' then least(holdings.used_gpus, holdings.gpus) else 0 end as productive_gpus,
        case when holdings.bucket = 'lost' then holdings.gpus else 0 end as lost_gpus,
        case when holdings.bucket = 'unobserved' then holdings.gpus else 0 end as unobserved_gpus,
        case when holdings.is_inferred then holdings.gpus else 0 end as inferred_gpus
    from holdings
    inner join clusters on holdings.cluster_id = clusters.cluster_id
    where holdings.held_seconds > 0

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
        cluster_id,
        machine_key,
        hour_number,
        hours * idle_gpus as idle_gpu_hours,
        hours * (sensed_gpus - productive_gpus) as under_used_gpu_hours,
        hours * lost_gpus as lost_gpu_hours,
        hours * unobserved_gpus as unobserved_gpu_hours,
        hours * productive_gpus as productive_gpu_hours,
        hours * inferred_gpus as inferred_gpu_hours
    from timed
    where hours > 0

    -- The begin or the end of any attempt, be it of CPU work, is a sign of life.
    {% for moment in ['started_at', 'ended_at'] %}
        union all

        select
            instances.cluster_id,
            instances.machine_key,
            {{ hour_number(seconds_of('instances.' ~ moment), 'clusters.hour_shift_seconds') }} as hour_number,
            0e0 as idle_gpu_hours,
            0e0 as under_used_gpu_hours,
            0e0 as lost_gpu_hours,
            0e0 as unobserved_gpu_hours,
            0e0 as productive_gpu_hours,
            0e0 as inferred_gpu_hours
        from instances
        inner join clusters on instances.cluster_id = clusters.cluster_id
        where instances.{{ moment }} is not null
    {% endfor %}

),

summed as (

    select
        cluster_id,
        machine_key,
        hour_number,
        {{ sum_buckets(held_buckets()) }},
        sum(inferred_gpu_hours) as inferred_gpu_hours
    from held
    group by cluster_id, machine_key, hour_number

),

final as (

    select
        summed.cluster_id,
        hours.dt,
        summed.machine_key,
        summed.hour_number,
        summed.idle_gpu_hours,
        summed.under_used_gpu_hours,
        summed.lost_gpu_hours,
        summed.unobserved_gpu_hours,
        summed.productive_gpu_hours,
        summed.inferred_gpu_hours
    from summed
    inner join hours on summed.cluster_id = hours.cluster_id and summed.hour_number = hours.hour_number

)

select * from final
