-- Days of a cluster's own time zone, from the first window of a machine to the last.

with windows as (

    select
        cluster_id,
        min(window_started_at) as first_at,
        max(window_ended_at) as last_at
    from {{ ref('silver_gpu_timeseries') }}
    group by cluster_id

),

known as (

    select * from {{ source('landed', 'known_clusters') }}

),

days as (

    select
        windows.cluster_id,
        known.time_zone,
        {{ each_day(
            local_day('windows.first_at', 'known.time_zone'), local_day('windows.last_at', 'known.time_zone')
        ) }} as dt
    from windows
    inner join known on windows.cluster_id = known.cluster_id

)

select
    cluster_id,
    dt,
    {{ day_begin('dt', 'time_zone') }} as started_at,
    {{ day_begin(next_day('dt'), 'time_zone') }} as ended_at
from days
