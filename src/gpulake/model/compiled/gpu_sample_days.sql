-- Streamed: samples of GPUs by the day of their cluster's zone; what a sample stands for beyond midnight is of the next
-- day. Each reader needs few of the many columns.

with samples as not materialized (

    select
        *,
        cast(floor((epoch_us(sampled_at) / 1e6) / 900) as bigint) as quarter,
        sampled_at + to_seconds(covers_seconds) as covers_until
    from "lake"."main"."silver_gpu_samples"

),

days as (

    select * from __dbt__cte__sample_days

),

dated as not materialized (

    select
        samples.*,
        days.dt,
        days.day_ended_at,
        days.time_zone
    from samples
    inner join days on samples.cluster_id = days.cluster_id and samples.quarter = days.quarter

)

-- No sample stands for more than two hours, so that there is one midnight at most.
select
    *,
    case
        when covers_until > day_ended_at then (epoch_us(day_ended_at) / 1e6) - (epoch_us(sampled_at) / 1e6)
        else covers_seconds
    end as seconds
from dated

union all by name

select
    * replace (
        cast(dt + 1 as date) as dt
    ),
    (epoch_us(covers_until) / 1e6) - (epoch_us(day_ended_at) / 1e6) as seconds
from dated
where covers_until > day_ended_at
