{% set meanings = [
    ('down', '', 'The machine was down', 'Recorded outages; else silence far longer than the machine is used to'),
    ('unallocated', '', 'Nobody held it', 'Capacity less what was down and what was held'),
    ('idle', 'idle', 'Held, and empty', 'Sensors: the attempt used less than idle_gpu_ratio of what it held'),
    ('under_used', 'used', 'Held by an attempt that used a part of it', 'Sensors: what was held less what was used'),
    (
        'lost', 'lost', 'Held by an attempt that failed or was interrupted',
        'Its interval; a begin or an end that is missing is drawn from its metrics, other tries, the gang, task and job'
    ),
    ('unobserved', 'unobserved', 'Held by an attempt without a sensor', 'Its interval; nobody knows what was used'),
    ('productive', 'used', 'Held and used', 'Sensors: the mean use over the life of the attempt')
] %}

with ledger as (

    select * from {{ ref('gold_ledger_hourly') }}

),

holdings as (

    select * from {{ ref('silver_holdings') }}

),

amounts as (

    {% for bucket, drawn_from, meaning, rests_on in meanings %}
        select
            cluster_id,
            cast({{ loop.index }} as bigint) as rank,
            '{{ bucket }}' as bucket,
            '{{ drawn_from }}' as drawn_from,
            '{{ meaning }}' as meaning,
            '{{ rests_on }}' as rests_on,
            sum({{ bucket }}_gpu_hours) as gpu_hours,
            sum(capacity_gpu_hours) as capacity_gpu_hours,
            sum(recorded_down_gpu_hours) / nullif(sum(down_gpu_hours), 0) as recorded_down_ratio
        from ledger
        group by cluster_id
        {{ 'union all' if not loop.last }}
    {% endfor %}

),

-- How much of what was held lies in intervals whose begin and end were both recorded.
recorded as (

    select
        cluster_id,
        bucket,
        sum(case when is_inferred then 0 else gpus * held_seconds end) / nullif(sum(gpus * held_seconds), 0) as ratio
    from holdings
    group by cluster_id, bucket

),

final as (

    select
        amounts.cluster_id,
        amounts.rank,
        amounts.bucket,
        amounts.meaning,
        amounts.rests_on,
        amounts.gpu_hours,
        amounts.gpu_hours / nullif(amounts.capacity_gpu_hours, 0) as capacity_ratio,
        case when amounts.bucket = 'down' then amounts.recorded_down_ratio else recorded.ratio end as observed_ratio
    from amounts
    left join recorded on amounts.cluster_id = recorded.cluster_id and amounts.drawn_from = recorded.bucket

)

select * from final
order by cluster_id, rank
