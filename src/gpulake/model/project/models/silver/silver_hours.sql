-- Hours begin with the local hour; a number counts them, so that an interval can be cut into hours without a search.

with clusters as (

    select * from {{ ref('silver_clusters') }}

),

numbered as (

    select
        *,
        {{ each_number(
            hour_number(seconds_of('observed_from'), 'hour_shift_seconds'),
            hour_number(seconds_of('observed_until'), 'hour_shift_seconds') ~ ' + 1'
        ) }} as hour_number
    from clusters

),

hours as (

    select
        *,
        {{ instant('hour_number * 3600 - hour_shift_seconds') }} as started_at,
        {{ instant('hour_number * 3600 + 3600 - hour_shift_seconds') }} as ended_at
    from numbered

),

final as (

    select
        cluster_id,
        hour_number,
        started_at,
        ended_at,
        {{ local_day('started_at', 'time_zone') }} as dt,
        {{ day_number(local_day('started_at', 'time_zone')) }} as day_number,
        {{ latest(['started_at', 'observed_from']) }} as observed_from,
        {{ earliest(['ended_at', 'observed_until']) }} as observed_until,
        {{ seconds_of(earliest(['ended_at', 'observed_until'])) }}
        - {{ seconds_of(latest(['started_at', 'observed_from'])) }} as observed_seconds
    from hours

)

select * from final
