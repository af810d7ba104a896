with stretches as (

    select * from __dbt__cte__machine_observations

),

machines as (

    select * from __dbt__cte__observed_machines

),

hours as (

    select * from "lake"."main"."silver_hours"

),

clusters as (

    select * from "lake"."main"."silver_clusters"

),

spans as (

    select
        stretches.cluster_id,
        machines.gpus,
        -- Where nothing says how many there are, each machine counts the same.
        coalesce(machines.cores, 1) as cores,
        stretches.busy_gpus,
        stretches.cpu_util_ratio,
        clusters.hour_shift_seconds as shift,
        (epoch_us(greatest(stretches.started_at, clusters.observed_from)) / 1e6) as begin_seconds,
        (epoch_us(least(stretches.ended_at, clusters.observed_until)) / 1e6) as end_seconds
    from stretches
    inner join machines on stretches.machine_key = machines.machine_key
    inner join clusters on stretches.cluster_id = clusters.cluster_id

),

pieces as (

    select
        *,
        unnest(range(cast(floor((begin_seconds + shift) / 3600) as bigint), cast(floor((end_seconds + shift) / 3600) as bigint) + 1)) as hour_number
    from spans

),

timed as (

    select
        *,
        (least(end_seconds, hour_number * 3600 + 3600 - shift) - greatest(begin_seconds, hour_number * 3600 - shift)) / 3600 as piece_hours
    from pieces

),

seen as (

    select
        cluster_id,
        hour_number,
        -- Rounded: the last digits of a sum of fractions depend on their order.
        round(sum(case when busy_gpus is not null then piece_hours * gpus else 0 end), 12) as observed_gpu_hours,
        round(sum(coalesce(piece_hours * busy_gpus, 0)), 12) as busy_gpu_hours,
        sum(case when cpu_util_ratio is not null then piece_hours * cores else 0 end) as observed_core_hours,
        sum(coalesce(piece_hours * cores * cpu_util_ratio, 0)) as busy_core_hours
    from timed
    where piece_hours > 0
    group by cluster_id, hour_number

),

capacity as (

    select
        cluster_id,
        sum(gpus) as gpus
    from machines
    group by cluster_id

),

final as (

    select
        hours.cluster_id,
        hours.started_at,
        hours.dt,
        seen.busy_gpu_hours / nullif(seen.observed_gpu_hours, 0) as gpu_util_ratio,
        seen.busy_core_hours / nullif(seen.observed_core_hours, 0) as cpu_util_ratio,
        coalesce(seen.busy_gpu_hours, 0) as busy_gpu_hours,
        coalesce(seen.observed_gpu_hours, 0) as observed_gpu_hours,
        capacity.gpus * hours.observed_seconds / 3600 as capacity_gpu_hours,
        coalesce(seen.observed_gpu_hours, 0) / nullif(capacity.gpus * hours.observed_seconds / 3600, 0)
            as coverage_ratio
    from hours
    inner join capacity on hours.cluster_id = capacity.cluster_id
    left join seen on hours.cluster_id = seen.cluster_id and hours.hour_number = seen.hour_number
    where hours.observed_seconds > 0

)

select * from final
order by cluster_id, started_at

-- test: a_cluster_has_a_utilised_hour_once() error
select cluster_id, started_at
from "lake"."main"."gold_cluster_util_hourly"
group by cluster_id, started_at
having count(*) > 1

-- test: in_range_gold_cluster_util_hourly_0__1_000001__coverage_ratio(coverage_ratio) error
where false
    or coverage_ratio < 0
    or coverage_ratio > 1.000001

-- test: in_range_gold_cluster_util_hourly_0__busy_gpu_hours(busy_gpu_hours) error
where false
    or busy_gpu_hours < 0

-- test: in_range_gold_cluster_util_hourly_0__capacity_gpu_hours(capacity_gpu_hours) error
where false
    or capacity_gpu_hours < 0

-- test: in_range_gold_cluster_util_hourly_0__cpu_util_ratio(cpu_util_ratio) error
where false
    or cpu_util_ratio < 0

-- test: in_range_gold_cluster_util_hourly_0__gpu_util_ratio(gpu_util_ratio) error
where false
    or gpu_util_ratio < 0

-- test: in_range_gold_cluster_util_hourly_0__observed_gpu_hours(observed_gpu_hours) error
where false
    or observed_gpu_hours < 0

-- test: not_null_gold_cluster_util_hourly_busy_gpu_hours(busy_gpu_hours) error
where busy_gpu_hours is null

-- test: not_null_gold_cluster_util_hourly_capacity_gpu_hours(capacity_gpu_hours) error
where capacity_gpu_hours is null

-- test: not_null_gold_cluster_util_hourly_cluster_id(cluster_id) error
where cluster_id is null

-- test: not_null_gold_cluster_util_hourly_dt(dt) error
where dt is null

-- test: not_null_gold_cluster_util_hourly_observed_gpu_hours(observed_gpu_hours) error
where observed_gpu_hours is null

-- test: not_null_gold_cluster_util_hourly_started_at(started_at) error
where started_at is null
