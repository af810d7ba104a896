with samples as (

    select * from {{ ref('gpu_sample_days') }}
    where temperature_celsius is not null

),

parameters as (

    select * from {{ source('landed', 'parameters') }}

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
        {{ median('measured.mean_celsius') }} over (partition by measured.cluster_id, measured.dt, gpus.node_id)
            as node_median_celsius,
        {{ median('measured.mean_celsius') }} over (partition by measured.cluster_id, measured.dt)
            as fleet_median_celsius,
        rank() over (partition by measured.cluster_id, measured.dt, gpus.node_id order by measured.mean_celsius desc)
            as node_rank,
        rank() over (partition by measured.cluster_id, measured.dt order by measured.mean_celsius desc) as fleet_rank
    from measured
    inner join gpus on measured.cluster_id = gpus.cluster_id and measured.dt = gpus.dt and measured.gpu_id = gpus.gpu_id

)

select * from final
order by cluster_id, dt, fleet_rank, gpu_id
