-- Samples of GPUs by the day of their cluster's zone; what a sample stands for beyond midnight is of the next day.

with samples as (

    select
        *,
        cast(floor((epoch_us(sampled_at) / 1e6) / 900) as bigint) as quarter,
        sampled_at + to_seconds(covers_seconds) as covers_until
    from "lake"."main"."silver_gpu_samples"

),

days as (

    select * from __dbt__cte__sample_days

),

dated as (

    select
        samples.*,
        days.dt,
        days.day_ended_at,
        days.time_zone
    from samples
    inner join days on samples.cluster_id = days.cluster_id and samples.quarter = days.quarter

),

-- No sample stands for more than two hours, so that there is one midnight at most.
over_midnight as (

    select * from dated
    where covers_until > day_ended_at

)

select
    *,
    covers_seconds as seconds
from dated
where covers_until <= day_ended_at

union all by name

select
    *,
    (epoch_us(day_ended_at) / 1e6) - (epoch_us(sampled_at) / 1e6) as seconds
from over_midnight

union all by name

select
    * replace (
        cast(dt + 1 as date) as dt
    ),
    (epoch_us(covers_until) / 1e6) - (epoch_us(day_ended_at) / 1e6) as seconds
from over_midnight
