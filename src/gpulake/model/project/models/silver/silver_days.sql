with clusters as (

    select * from {{ ref('silver_clusters') }}

),

days as (

    select
        *,
        {{ each_day(local_day('observed_from', 'time_zone'), local_day('observed_until', 'time_zone')) }} as dt
    from clusters

),

bounded as (

    select
        *,
        {{ day_begin('dt', 'time_zone') }} as started_at,
        {{ day_begin(next_day('dt'), 'time_zone') }} as ended_at
    from days

),

final as (

    select
        cluster_id,
        dt,
        {{ day_number('dt') }} as day_number,
        started_at,
        ended_at,
        {{ latest(['started_at', 'observed_from']) }} as observed_from,
        {{ earliest(['ended_at', 'observed_until']) }} as observed_until,
        {{ seconds_of(earliest(['ended_at', 'observed_until'])) }}
        - {{ seconds_of(latest(['started_at', 'observed_from'])) }} as observed_seconds
    from bounded

)

select * from final
