-- Days of a cluster's own time zone from the first window of a machine to the last; where there is none, from the first
-- sample of a GPU to the last.

with windowed as (

    select * from {{ ref('window_days') }}

),

known as (

    select * from {{ source('landed', 'known_clusters') }}

),

sampled as (

    select
        cluster_id,
        min(dt) as first_dt,
        max(dt) as last_dt
    from {{ ref('silver_gpu_hours') }}
    group by cluster_id

),

days as (

    select
        sampled.cluster_id,
        coalesce(known.time_zone, 'UTC') as time_zone,
        {{ each_day('sampled.first_dt', 'sampled.last_dt') }} as dt
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
    {{ day_begin('dt', 'time_zone') }} as started_at,
    {{ day_begin(next_day('dt'), 'time_zone') }} as ended_at
from days
where cluster_id not in (select distinct others.cluster_id from windowed as others)
