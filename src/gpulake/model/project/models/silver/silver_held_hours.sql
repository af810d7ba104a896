with holdings as (

    select * from {{ ref('silver_holdings') }}

),

clusters as (

    select * from {{ ref('silver_clusters') }}

),

intervals as (

    select
        holdings.cluster_id,
        holdings.machine_key,
        clusters.hour_shift_seconds as shift,
        {{ seconds_of('holdings.held_from') }} as begin_seconds,
        {{ seconds_of('holdings.held_until') }} as end_seconds,
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

final as (

    select
        cluster_id,
        machine_key,
        hour_number,
        sum(hours * idle_gpus) as idle_gpu_hours,
        sum(hours * (sensed_gpus - productive_gpus)) as under_used_gpu_hours,
        sum(hours * lost_gpus) as lost_gpu_hours,
        sum(hours * unobserved_gpus) as unobserved_gpu_hours,
        sum(hours * productive_gpus) as productive_gpu_hours,
        sum(hours * inferred_gpus) as inferred_gpu_hours
    from timed
    where hours > 0
    group by cluster_id, machine_key, hour_number

)

select * from final
