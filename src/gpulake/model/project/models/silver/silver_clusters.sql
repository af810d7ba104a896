-- Times are instants; the days and hours of a cluster are those of its own time zone.

with jobs as (

    select * from {{ ref('silver_jobs') }}

),

instances as (

    select * from {{ ref('silver_instances') }}

),

windows as (

    select * from {{ ref('silver_gpu_timeseries') }}

),

known as (

    select * from {{ source('landed', 'known_clusters') }}

),

seen as (

    select
        cluster_id,
        min(submitted_at) as first_at,
        {{ reached('submitted_at') }} as last_start_at,
        {{ reached('ended_at') }} as last_end_at
    from jobs
    group by cluster_id

    union all

    select
        cluster_id,
        {{ earliest(['min(started_at)', 'min(ended_at)']) }} as first_at,
        {{ reached('started_at') }} as last_start_at,
        {{ reached('ended_at') }} as last_end_at
    from instances
    group by cluster_id

    union all

    select
        cluster_id,
        min(window_started_at) as first_at,
        {{ reached('window_started_at') }} as last_start_at,
        {{ reached('window_ended_at') }} as last_end_at
    from windows
    group by cluster_id

),

-- A trace has ended when all but a thousandth has: the last of its longest jobs may have been waited for.
spans as (

    select
        cluster_id,
        min(first_at) as observed_from,
        {{ latest(['max(last_start_at)', 'max(last_end_at)']) }} as observed_until
    from seen
    group by cluster_id
    having min(first_at) is not null

),

zoned as (

    select
        spans.cluster_id,
        coalesce(known.time_zone, 'UTC') as time_zone,
        spans.observed_from,
        spans.observed_until
    from spans
    left join known on spans.cluster_id = known.cluster_id

),

final as (

    select
        *,
        {{ hour_shift_seconds('observed_from', 'time_zone') }} as hour_shift_seconds,
        cluster_id = 'synth' as is_generated
    from zoned

)

select * from final
