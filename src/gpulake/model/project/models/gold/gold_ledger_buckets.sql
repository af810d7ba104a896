{% set meanings = [
    ('down', 'The machine was out of service', 'Recorded outages; else machines that lost all they ran and stayed silent'),
    (
        'unknown', 'Nobody can say whether it was held',
        'Attempts whose demand is not known; machines gone silent for far longer than usual'
    ),
    ('unallocated', 'Nobody held it', 'Capacity less what was down, unknown and held'),
    ('idle', 'Held, and empty', 'Sensors: the attempt used less than idle_gpu_ratio of what it held'),
    ('under_used', 'Held by an attempt that used a part of it', 'Sensors: what was held less what was used'),
    (
        'failed', 'Held by an attempt that failed or lost its node, since its last checkpoint',
        'Its interval; whole where no checkpoint is known'
    ),
    (
        'timed_out', 'Held by an attempt that reached its time limit, since its last checkpoint',
        'Its interval; whole where no checkpoint is known'
    ),
    (
        'interrupted', 'Held by an attempt that was preempted or stopped with its gang, since its last checkpoint',
        'Its interval; whole where no checkpoint is known'
    ),
    ('unobserved', 'Held by an attempt without a sensor', 'Its interval; nobody knows what was used'),
    ('used', 'Held and used', 'Sensors: the mean use over the life of the attempt, of attempts that were not lost')
] %}
{% set sensed = ['idle', 'under_used', 'used'] %}

with ledger as (

    select * from {{ ref('gold_ledger_hourly') }}

),

clusters as (

    select * from {{ ref('silver_clusters') }}

),

holdings as (

    select
        *,
        {{ seconds_of('held_until') }} - {{ seconds_of('coalesce(lost_from, held_until)') }} as lost_seconds
    from {{ ref('silver_holdings') }}

),

totals as (

    select
        cluster_id,
        sum(capacity_gpu_hours) as capacity_gpu_hours,
        sum(recorded_down_gpu_hours) as recorded_down_gpu_hours,
        {{ sum_buckets(buckets() + held_notes()) }}
    from ledger
    group by cluster_id

),

-- Of what attempts of a bucket held: how much lies in inferred intervals, and how much was surely lost.
claims as (

    {% for drawn_from, seconds in [('use_bucket', 'held_seconds - lost_seconds'), ('bucket', 'lost_seconds')] %}
        select
            cluster_id,
            {{ drawn_from }} as bucket,
            sum(case when is_inferred then gpus * ({{ seconds }}) else 0 end) / nullif(sum(gpus * ({{ seconds }})), 0)
                as inferred_ratio,
            sum(case when has_checkpoint then gpus * ({{ seconds }}) else 0 end) / nullif(sum(gpus * ({{ seconds }})), 0)
                as certain_ratio
        from holdings
        where {{ seconds }} > 0
        group by cluster_id, {{ drawn_from }}
        {{ 'union all' if not loop.last }}
    {% endfor %}

),

amounts as (

    {% for bucket, meaning, rests_on in meanings %}
        select
            cluster_id,
            cast({{ loop.index }} as bigint) as rank,
            '{{ bucket }}' as bucket,
            '{{ 'used' if bucket == 'under_used' else bucket }}' as drawn_from,
            '{{ meaning }}' as meaning,
            '{{ rests_on }}' as rests_on,
            {{ bucket }}_gpu_hours as gpu_hours,
            capacity_gpu_hours,
            {% if bucket in sensed %}
                {{ bucket }}_gpu_hours / nullif({{ total_gpu_hours(sensed) }}, 0) as sensed_ratio,
                unobserved_gpu_hours as more_gpu_hours,
            {% else %}
                cast(null as double) as sensed_ratio,
                0e0 as more_gpu_hours,
            {% endif %}
            {% if bucket == 'down' %}
                1 - recorded_down_gpu_hours / nullif(down_gpu_hours, 0) as inferred_ratio
            {% else %}
                cast(null as double) as inferred_ratio
            {% endif %}
        from totals
        {{ 'union all' if not loop.last }}
    {% endfor %}

),

final as (

    select
        amounts.cluster_id,
        amounts.rank,
        amounts.bucket,
        amounts.meaning,
        amounts.rests_on,
        amounts.gpu_hours,
        case
            when amounts.bucket in ('{{ lost_buckets() | join("', '") }}')
                then amounts.gpu_hours * coalesce(claims.certain_ratio, 0)
            else amounts.gpu_hours
        end as gpu_hours_at_least,
        amounts.gpu_hours + amounts.more_gpu_hours as gpu_hours_at_most,
        amounts.gpu_hours / nullif(amounts.capacity_gpu_hours, 0) as capacity_ratio,
        amounts.sensed_ratio,
        coalesce(amounts.inferred_ratio, claims.inferred_ratio) as inferred_ratio,
        clusters.observed_from,
        clusters.observed_until
    from amounts
    inner join clusters on amounts.cluster_id = clusters.cluster_id
    left join claims on amounts.cluster_id = claims.cluster_id and amounts.drawn_from = claims.bucket

)

select * from final
order by cluster_id, rank
