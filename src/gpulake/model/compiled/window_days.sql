-- Days of a cluster's own time zone, from the first window of a machine to the last.

with windows as (

    select
        cluster_id,
        min(window_started_at) as first_at,
        max(window_ended_at) as last_at
    from "lake"."main"."silver_gpu_timeseries"
    group by cluster_id

),

known as (

    select * from "landed"."main"."known_clusters"

),

days as (

    select
        windows.cluster_id,
        known.time_zone,
        cast(unnest(generate_series(cast(timezone(known.time_zone, windows.first_at) as date), cast(timezone(known.time_zone, windows.last_at) as date), interval 1 day)) as date) as dt
    from windows
    inner join known on windows.cluster_id = known.cluster_id

)

select
    cluster_id,
    dt,
    timezone(time_zone, cast(dt as timestamp)) as started_at,
    timezone(time_zone, cast(cast(dt + 1 as date) as timestamp)) as ended_at
from days
