-- Each claim's part of the excess of a machine and hour that was claimed beyond what there was. Only holdings of
-- overcommitted machines are cut into hours.

with machine_hours as (

    select
        machine_key,
        started_at,
        overcommitted_gpu_hours / (overcommitted_gpu_hours + {{ held_gpu_hours() }}) as excess_ratio
    from {{ ref('gold_machine_hours') }}
    -- Sums of floats leave a dust that is no excess.
    where overcommitted_gpu_hours > 0.000000001

),

hours as (

    select * from {{ ref('silver_hours') }}

),

capacity as (

    select * from {{ ref('silver_capacity') }}

),

clusters as (

    select * from {{ ref('silver_clusters') }}

),

excesses as (

    select
        capacity.machine_key,
        coalesce(capacity.gpu_type, 'unknown') as gpu_type,
        hours.hour_number,
        hours.dt,
        machine_hours.excess_ratio
    from machine_hours
    inner join capacity on machine_hours.machine_key = capacity.machine_key
    inner join hours on capacity.cluster_id = hours.cluster_id and machine_hours.started_at = hours.started_at

),

-- In which hours of a machine to look at all.
spans as (

    select
        machine_key,
        min(hour_number) as first_hour,
        max(hour_number) as last_hour
    from excesses
    group by machine_key

),

intervals as (

    select
        holdings.cluster_id,
        holdings.job_key,
        holdings.instance_key,
        holdings.attempt,
        holdings.machine_key,
        spans.first_hour,
        spans.last_hour,
        {{ piece_columns() }}
    from {{ ref('silver_holdings') }} as holdings
    inner join clusters on holdings.cluster_id = clusters.cluster_id
    inner join spans on holdings.machine_key = spans.machine_key
    where holdings.held_seconds > 0

),

pieces as (

    select
        *,
        {{ each_number(
            'greatest(' ~ hour_number('begin_seconds', 'shift') ~ ', first_hour)',
            'least(' ~ hour_number('end_seconds', 'shift') ~ ', last_hour) + 1'
        ) }} as hour_number
    from intervals

),

final as (

    select
        pieces.cluster_id,
        pieces.machine_key,
        pieces.job_key,
        pieces.instance_key,
        pieces.attempt,
        excesses.dt,
        pieces.hour_number,
        excesses.gpu_type,
        pieces.bucket,
        pieces.use_bucket,
        pieces.gpus,
        pieces.used_gpus,
        pieces.has_checkpoint,
        pieces.is_inferred,
        excesses.excess_ratio
        * {{ hours_within('pieces.begin_seconds', 'pieces.end_seconds', 'pieces.hour_number', 'pieces.shift') }}
            as hours,
        excesses.excess_ratio * greatest(
            {{ hours_within(
                'greatest(pieces.begin_seconds, pieces.lost_seconds)', 'pieces.end_seconds', 'pieces.hour_number',
                'pieces.shift'
            ) }}, 0
        ) as lost_hours
    from pieces
    inner join excesses on pieces.machine_key = excesses.machine_key and pieces.hour_number = excesses.hour_number

)

select * from final
where hours > 0
