-- Each claim's part of the excess of a machine and hour that was claimed beyond what there was. Only holdings of
-- overcommitted machines are cut into hours.

with machine_hours as (

    select
        machine_key,
        started_at,
        overcommitted_gpu_hours / (overcommitted_gpu_hours + idle_gpu_hours + under_used_gpu_hours + failed_gpu_hours + timed_out_gpu_hours + interrupted_gpu_hours + unobserved_gpu_hours + used_gpu_hours) as excess_ratio
    from "lake"."main"."gold_machine_hours"
    -- Sums of floats leave a dust that is no excess.
    where overcommitted_gpu_hours > 0.000000001

),

hours as (

    select * from "lake"."main"."silver_hours"

),

capacity as (

    select * from "lake"."main"."silver_capacity"

),

clusters as (

    select * from "lake"."main"."silver_clusters"

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
    from "lake"."main"."silver_holdings" as holdings
    inner join clusters on holdings.cluster_id = clusters.cluster_id
    inner join spans on holdings.machine_key = spans.machine_key
    where holdings.held_seconds > 0

),

pieces as (

    select
        *,
        unnest(range(greatest(cast(floor((begin_seconds + shift) / 3600) as bigint), first_hour), least(cast(floor((end_seconds + shift) / 3600) as bigint), last_hour) + 1)) as hour_number
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
        * (least(pieces.end_seconds, pieces.hour_number * 3600 + 3600 - pieces.shift) - greatest(pieces.begin_seconds, pieces.hour_number * 3600 - pieces.shift)) / 3600
            as hours,
        excesses.excess_ratio * greatest(
            (least(pieces.end_seconds, pieces.hour_number * 3600 + 3600 - pieces.shift) - greatest(greatest(pieces.begin_seconds, pieces.lost_seconds), pieces.hour_number * 3600 - pieces.shift)) / 3600, 0
        ) as lost_hours
    from pieces
    inner join excesses on pieces.machine_key = excesses.machine_key and pieces.hour_number = excesses.hour_number

)

select * from final
where hours > 0

-- test: an_attempt_is_overcommitted_once_an_hour() error
select instance_key, attempt, hour_number
from "lake"."main"."silver_overcommits"
group by instance_key, attempt, hour_number
having count(*) > 1

-- test: in_range_silver_overcommits_0__gpus(gpus) error
where false
    or gpus < 0

-- test: in_range_silver_overcommits_0__hours(hours) error
where false
    or hours < 0

-- test: in_range_silver_overcommits_0__lost_hours(lost_hours) error
where false
    or lost_hours < 0

-- test: in_range_silver_overcommits_0__used_gpus(used_gpus) error
where false
    or used_gpus < 0

-- test: not_null_silver_overcommits_attempt(attempt) error
where attempt is null

-- test: not_null_silver_overcommits_bucket(bucket) error
where bucket is null

-- test: not_null_silver_overcommits_cluster_id(cluster_id) error
where cluster_id is null

-- test: not_null_silver_overcommits_dt(dt) error
where dt is null

-- test: not_null_silver_overcommits_gpu_type(gpu_type) error
where gpu_type is null

-- test: not_null_silver_overcommits_gpus(gpus) error
where gpus is null

-- test: not_null_silver_overcommits_has_checkpoint(has_checkpoint) error
where has_checkpoint is null

-- test: not_null_silver_overcommits_hour_number(hour_number) error
where hour_number is null

-- test: not_null_silver_overcommits_hours(hours) error
where hours is null

-- test: not_null_silver_overcommits_instance_key(instance_key) error
where instance_key is null

-- test: not_null_silver_overcommits_is_inferred(is_inferred) error
where is_inferred is null

-- test: not_null_silver_overcommits_job_key(job_key) error
where job_key is null

-- test: not_null_silver_overcommits_lost_hours(lost_hours) error
where lost_hours is null

-- test: not_null_silver_overcommits_machine_key(machine_key) error
where machine_key is null

-- test: not_null_silver_overcommits_use_bucket(use_bucket) error
where use_bucket is null
