-- Days of a cluster's own time zone from the first window of a machine to the last; where there is none, from the first
-- sample of a GPU to the last.

with windowed as (

    select * from __dbt__cte__window_days

),

known as (

    select * from "landed"."main"."known_clusters"

),

sampled as (

    select
        cluster_id,
        min(dt) as first_dt,
        max(dt) as last_dt
    from "lake"."main"."silver_gpu_hours"
    group by cluster_id

),

days as (

    select
        sampled.cluster_id,
        coalesce(known.time_zone, 'UTC') as time_zone,
        cast(unnest(generate_series(sampled.first_dt, sampled.last_dt, interval 1 day)) as date) as dt
    from sampled
    left join known on sampled.cluster_id = known.cluster_id

)

select
    cluster_id,
    dt,
    started_at,
    ended_at
from windowed

union all

select
    cluster_id,
    dt,
    timezone(time_zone, cast(dt as timestamp)) as started_at,
    timezone(time_zone, cast(cast(dt + 1 as date) as timestamp)) as ended_at
from days
where cluster_id not in (select distinct others.cluster_id from windowed as others)
