{% set meanings = [
    (
        'down', 'The machine was out of service',
        'Recorded outages; else machines that lost all attempts at one moment and stayed silent'
    ),
    (
        'unknown', 'It is unknown whether it was held',
        'Attempts with unknown demand; machines silent for far longer than usual; GPUs in use that no job explains'
    ),
    ('unallocated', 'Not held', 'Capacity less down, unknown and held'),
    ('idle', 'Held, with no work on it', 'Sensors: the attempt used less than idle_gpu_ratio of what it held'),
    ('under_used', 'Unused part of what a working attempt held', 'Sensors: held less used'),
    (
        'failed', 'Held by an attempt that failed or lost its node, since its last checkpoint',
        'Its interval; all of it if no checkpoint is known'
    ),
    (
        'timed_out', 'Held by an attempt that reached its time limit, since its last checkpoint',
        'Its interval; all of it if no checkpoint is known'
    ),
    (
        'interrupted', 'Held by an attempt that was preempted or stopped with its gang, since its last checkpoint',
        'Its interval; all of it if no checkpoint is known'
    ),
    ('unobserved', 'Held by an attempt without a sensor', 'Its interval; its use is unknown'),
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

    select * from {{ ref('silver_holdings') }}
    where held_seconds > 0

),

capacity as (

    select * from {{ ref('silver_capacity') }}

),

overcommits as (

    select * from {{ ref('silver_overcommits') }}

),

totals as (

    select
        cluster_id,
        sum(capacity_gpu_hours) as capacity_gpu_hours,
        sum(recorded_down_gpu_hours) as recorded_down_gpu_hours,
        {{ sum_buckets(buckets()) }}
    from ledger
    group by cluster_id

),

intervals as (

    select
        holdings.cluster_id,
        {{ piece_columns() }}
    from holdings
    inner join clusters on holdings.cluster_id = clusters.cluster_id
    inner join capacity on holdings.machine_key = capacity.machine_key

),

-- Claims, less the part that exceeds capacity.
pieces as (

    select
        cluster_id,
        bucket,
        use_bucket,
        gpus,
        used_gpus,
        has_checkpoint,
        is_inferred,
        (end_seconds - begin_seconds) / 3600 as hours,
        greatest(end_seconds - greatest(begin_seconds, lost_seconds), 0) / 3600 as lost_hours
    from intervals
    where end_seconds > begin_seconds

    union all

    select
        cluster_id,
        bucket,
        use_bucket,
        gpus,
        used_gpus,
        has_checkpoint,
        is_inferred,
        -hours as hours,
        -lost_hours as lost_hours
    from overcommits

),

-- The part of each bucket in inferred intervals, and the part that was certainly lost.
notes as (

    select
        {% for bucket in lost_buckets() %}
            sum(case when has_checkpoint then {{ piece_gpu_hours(bucket) }} else 0 end)
                as certain_{{ bucket }}_gpu_hours,
        {% endfor %}
        -- An upper bound of the loss: if it was not lost, it counts by use.
        greatest(sum(case when has_checkpoint then 0 else lost_hours * gpus end), 0) as doubtful_gpu_hours,
        {% for bucket in held_buckets() %}
            sum(case when is_inferred then {{ piece_gpu_hours(bucket) }} else 0 end) as inferred_{{ bucket }}_gpu_hours,
        {% endfor %}
        cluster_id
    from pieces
    group by cluster_id

),

amounts as (

    {% for bucket, meaning, rests_on in meanings %}
        select
            totals.cluster_id,
            cast({{ loop.index }} as bigint) as rank,
            '{{ bucket }}' as bucket,
            '{{ meaning }}' as meaning,
            '{{ rests_on }}' as rests_on,
            totals.{{ bucket }}_gpu_hours as gpu_hours,
            {% if bucket in lost_buckets() %}
                -- Rounding of sums may give slightly less than zero, or more than the bucket.
                least(greatest(coalesce(notes.certain_{{ bucket }}_gpu_hours, 0), 0), totals.{{ bucket }}_gpu_hours)
            {% else %}
                totals.{{ bucket }}_gpu_hours
            {% endif %} as gpu_hours_at_least,
            totals.{{ bucket }}_gpu_hours
            {{ '+ totals.unknown_gpu_hours' if bucket != 'unknown' }}
            {{ '+ totals.unobserved_gpu_hours' if bucket in sensed }}
            {{ '+ coalesce(notes.doubtful_gpu_hours, 0)' if bucket in sensed + ['unobserved'] }} as gpu_hours_at_most,
            totals.{{ bucket }}_gpu_hours / nullif(totals.capacity_gpu_hours, 0) as capacity_ratio,
            {% if bucket in sensed %}
                totals.{{ bucket }}_gpu_hours / nullif({{ total_gpu_hours(sensed) }}, 0)
            {% else %}
                cast(null as double)
            {% endif %} as sensed_ratio,
            {% if bucket == 'down' %}
                1 - totals.recorded_down_gpu_hours / nullif(totals.down_gpu_hours, 0)
            {% elif bucket in held_buckets() %}
                least(greatest(notes.inferred_{{ bucket }}_gpu_hours, 0), totals.{{ bucket }}_gpu_hours)
                / nullif(totals.{{ bucket }}_gpu_hours, 0)
            {% else %}
                cast(null as double)
            {% endif %} as inferred_ratio
        from totals
        {% if bucket in held_buckets() %}
            left join notes on totals.cluster_id = notes.cluster_id
        {% endif %}
        {{ 'union all' if not loop.last }}
    {% endfor %}

),

final as (

    select
        amounts.*,
        clusters.observed_from,
        clusters.observed_until
    from amounts
    inner join clusters on amounts.cluster_id = clusters.cluster_id

)

select * from final
order by cluster_id, rank
