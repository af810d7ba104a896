-- What each attempt held on each day of its cluster's own time zone. Most begin and end on one day and need no cutting.

with holdings as (

    select * from "lake"."main"."silver_holdings"
    where held_seconds > 0

),

capacity as (

    select * from "lake"."main"."silver_capacity"

),

clusters as (

    select * from "lake"."main"."silver_clusters"

),

hours as (

    select * from "lake"."main"."silver_hours"

),

days as (

    select * from "lake"."main"."silver_days"

),

intervals as (

    select
        holdings.cluster_id,
        holdings.job_key,
        -- What the machine has, which may not be what was asked for. One that nobody lists is no capacity.
        case when capacity.machine_key is null then 'unlisted' else coalesce(capacity.gpu_type, 'unknown') end
            as gpu_type,
        holdings.bucket,
    holdings.use_bucket,
    holdings.gpus,
    holdings.has_checkpoint,
    holdings.is_inferred,
    case when holdings.used_gpus is not null then least(holdings.used_gpus, holdings.gpus) end as used_gpus,
    clusters.hour_shift_seconds as shift,
    (epoch_us(greatest(holdings.held_from, clusters.observed_from)) / 1e6) as begin_seconds,
    (epoch_us(least(holdings.held_until, clusters.observed_until)) / 1e6) as end_seconds,
    (epoch_us(coalesce(holdings.lost_from, holdings.held_until)) / 1e6) as lost_seconds
    from holdings
    inner join clusters on holdings.cluster_id = clusters.cluster_id
    left join capacity on holdings.machine_key = capacity.machine_key

),

dated as (

    select
        intervals.*,
        first_hours.dt as first_dt,
        first_hours.day_number as first_day,
        last_hours.day_number as last_day
    from intervals
    inner join hours as first_hours
        on
            intervals.cluster_id = first_hours.cluster_id
            and cast(floor((intervals.begin_seconds + intervals.shift) / 3600) as bigint) = first_hours.hour_number
    inner join hours as last_hours
        on
            intervals.cluster_id = last_hours.cluster_id
            and cast(floor((intervals.end_seconds + intervals.shift) / 3600) as bigint) = last_hours.hour_number
    where intervals.end_seconds > intervals.begin_seconds

),

pieces as (

    select
        *,
        unnest(range(first_day, last_day + 1)) as day_number
    from dated
    where first_day < last_day

)

select
    cluster_id,
    first_dt as dt,
    job_key,
    gpu_type,
    bucket,
    use_bucket,
    gpus,
    has_checkpoint,
    is_inferred,
    used_gpus,
    (end_seconds - begin_seconds) / 3600 as hours,
    greatest(end_seconds - greatest(begin_seconds, lost_seconds), 0) / 3600 as lost_hours
from dated
where first_day = last_day

union all

select
    pieces.cluster_id,
    days.dt,
    pieces.job_key,
    pieces.gpu_type,
    pieces.bucket,
    pieces.use_bucket,
    pieces.gpus,
    pieces.has_checkpoint,
    pieces.is_inferred,
    pieces.used_gpus,
    (
        least(pieces.end_seconds, (epoch_us(days.ended_at) / 1e6))
        - greatest(pieces.begin_seconds, (epoch_us(days.started_at) / 1e6))
    ) / 3600 as hours,
    greatest(
        least(pieces.end_seconds, (epoch_us(days.ended_at) / 1e6))
        - greatest(pieces.begin_seconds, pieces.lost_seconds, (epoch_us(days.started_at) / 1e6)),
        0
    ) / 3600 as lost_hours
from pieces
inner join days on pieces.cluster_id = days.cluster_id and pieces.day_number = days.day_number
where pieces.end_seconds > (epoch_us(days.started_at) / 1e6)
