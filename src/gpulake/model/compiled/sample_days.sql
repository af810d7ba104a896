-- The day in which each quarter of an hour with samples of GPUs lies, in its cluster's zone: no zone has another step.

with samples as (

    select * from "lake"."main"."silver_gpu_samples"

),

known as (

    select * from "landed"."main"."known_clusters"

),

quarters as (

    select distinct
        cluster_id,
        cast(floor((epoch_us(sampled_at) / 1e6) / 900) as bigint) as quarter
    from samples

),

zoned as (

    select
        quarters.cluster_id,
        quarters.quarter,
        coalesce(known.time_zone, 'UTC') as time_zone
    from quarters
    left join known on quarters.cluster_id = known.cluster_id

),

dated as (

    select
        *,
        cast(timezone(time_zone, to_timestamp(quarter * 900)) as date) as dt
    from zoned

)

select
    *,
    timezone(time_zone, cast(cast(dt + 1 as date) as timestamp)) as day_ended_at
from dated
