with samples as (

    select * from __dbt__cte__gpu_sample_days
    where temperature_celsius is not null

),

parameters as (

    select * from "landed"."main"."parameters"

),

gpus as (

    select
        cluster_id,
        dt,
        gpu_id,
        max(node_id) as node_id,
        max(gpu_index) as gpu_index,
        max(gpu_name) as gpu_name,
        max(slowdown_temperature_celsius) as slowdown_celsius,
        sum(seconds) as seconds
    from samples
    group by cluster_id, dt, gpu_id

),

-- How long each GPU had each temperature. Of samples that stand for no time each counts alike.
temperatures as (

    select
        samples.cluster_id,
        samples.dt,
        samples.gpu_id,
        samples.temperature_celsius,
        sum(samples.seconds) as seconds,
        sum(case when gpus.seconds > 0 then samples.seconds else 1 end) as weight
    from samples
    inner join gpus on samples.cluster_id = gpus.cluster_id and samples.dt = gpus.dt and samples.gpu_id = gpus.gpu_id
    group by samples.cluster_id, samples.dt, samples.gpu_id, samples.temperature_celsius

),

stacked as (

    select
        *,
        sum(weight) over (partition by cluster_id, dt, gpu_id order by temperature_celsius)
        >= 0.95 * sum(weight) over (partition by cluster_id, dt, gpu_id) as is_at_p95
    from temperatures

),

measured as (

    select
        stacked.cluster_id,
        stacked.dt,
        stacked.gpu_id,
        sum(stacked.temperature_celsius * stacked.weight) / sum(stacked.weight) as mean_celsius,
        min(case when stacked.is_at_p95 then stacked.temperature_celsius end) as p95_celsius,
        max(stacked.temperature_celsius) as max_celsius,
        max(coalesce(gpus.slowdown_celsius, parameters.hot_gpu_celsius)) as threshold_celsius,
        sum(
            case
                when stacked.temperature_celsius >= coalesce(gpus.slowdown_celsius, parameters.hot_gpu_celsius)
                    then stacked.seconds
                else 0
            end
        ) / 3600 as hot_hours
    from stacked
    inner join gpus on stacked.cluster_id = gpus.cluster_id and stacked.dt = gpus.dt and stacked.gpu_id = gpus.gpu_id
    cross join parameters
    group by stacked.cluster_id, stacked.dt, stacked.gpu_id

),

final as (

    select
        measured.cluster_id,
        measured.dt,
        gpus.node_id,
        measured.gpu_id,
        gpus.gpu_index,
        gpus.gpu_name,
        gpus.seconds / 3600 as observed_hours,
        measured.mean_celsius,
        measured.p95_celsius,
        measured.max_celsius,
        measured.threshold_celsius,
        gpus.slowdown_celsius is not null as is_own_threshold,
        measured.hot_hours,
        median(measured.mean_celsius) over (partition by measured.cluster_id, measured.dt, gpus.node_id)
            as node_median_celsius,
        median(measured.mean_celsius) over (partition by measured.cluster_id, measured.dt)
            as fleet_median_celsius,
        rank() over (partition by measured.cluster_id, measured.dt, gpus.node_id order by measured.mean_celsius desc)
            as node_rank,
        rank() over (partition by measured.cluster_id, measured.dt order by measured.mean_celsius desc) as fleet_rank
    from measured
    inner join gpus on measured.cluster_id = gpus.cluster_id and measured.dt = gpus.dt and measured.gpu_id = gpus.gpu_id

)

select * from final
order by cluster_id, dt, fleet_rank, gpu_id

-- test: a_day_of_samples_has_no_more_than_25_hours() error
where not (observed_hours <= 25.001)

-- test: a_gpu_is_hot_or_not_once_a_day() error
select cluster_id, dt, gpu_id
from "lake"."main"."gold_hot_gpus_daily"
group by cluster_id, dt, gpu_id
having count(*) > 1

-- test: a_gpu_is_not_hot_for_longer_than_it_is_seen() error
where not (hot_hours <= observed_hours + 1e-6)

-- test: a_mean_is_between_what_it_is_of() error
where not (mean_celsius <= max_celsius + 1e-6 and p95_celsius <= max_celsius)

-- test: in_range_gold_hot_gpus_daily_0__hot_hours(hot_hours) error
where false
    or hot_hours < 0

-- test: in_range_gold_hot_gpus_daily_0__observed_hours(observed_hours) error
where false
    or observed_hours < 0

-- test: in_range_gold_hot_gpus_daily_1__fleet_rank(fleet_rank) error
where false
    or fleet_rank < 1

-- test: in_range_gold_hot_gpus_daily_1__node_rank(node_rank) error
where false
    or node_rank < 1

-- test: in_range_gold_hot_gpus_daily__40__150__max_celsius(max_celsius) error
where false
    or max_celsius < -40
    or max_celsius > 150

-- test: in_range_gold_hot_gpus_daily__40__150__mean_celsius(mean_celsius) error
where false
    or mean_celsius < -40
    or mean_celsius > 150

-- test: in_range_gold_hot_gpus_daily__40__150__p95_celsius(p95_celsius) error
where false
    or p95_celsius < -40
    or p95_celsius > 150

-- test: not_null_gold_hot_gpus_daily_cluster_id(cluster_id) error
where cluster_id is null

-- test: not_null_gold_hot_gpus_daily_dt(dt) error
where dt is null

-- test: not_null_gold_hot_gpus_daily_fleet_median_celsius(fleet_median_celsius) error
where fleet_median_celsius is null

-- test: not_null_gold_hot_gpus_daily_fleet_rank(fleet_rank) error
where fleet_rank is null

-- test: not_null_gold_hot_gpus_daily_gpu_id(gpu_id) error
where gpu_id is null

-- test: not_null_gold_hot_gpus_daily_hot_hours(hot_hours) error
where hot_hours is null

-- test: not_null_gold_hot_gpus_daily_is_own_threshold(is_own_threshold) error
where is_own_threshold is null

-- test: not_null_gold_hot_gpus_daily_max_celsius(max_celsius) error
where max_celsius is null

-- test: not_null_gold_hot_gpus_daily_mean_celsius(mean_celsius) error
where mean_celsius is null

-- test: not_null_gold_hot_gpus_daily_node_median_celsius(node_median_celsius) error
where node_median_celsius is null

-- test: not_null_gold_hot_gpus_daily_node_rank(node_rank) error
where node_rank is null

-- test: not_null_gold_hot_gpus_daily_observed_hours(observed_hours) error
where observed_hours is null

-- test: not_null_gold_hot_gpus_daily_p95_celsius(p95_celsius) error
where p95_celsius is null

-- test: not_null_gold_hot_gpus_daily_threshold_celsius(threshold_celsius) error
where threshold_celsius is null
