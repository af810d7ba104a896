with windows as (

    select
        min(window_started_at) as first_at,
        max(window_ended_at) as last_at
    from {{ ref('silver_gpu_timeseries') }}

),

days as (

    select
        {{ each_day(
            local_day('first_at', trace_time_zone()), local_day('last_at', trace_time_zone())
        ) }} as dt
    from windows

),

final as (

    select
        dt,
        {{ day_begin('dt', trace_time_zone()) }} as started_at,
        {{ day_begin(next_day('dt'), trace_time_zone()) }} as ended_at
    from days

)

select * from final
