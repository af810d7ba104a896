with jobs as (

    select * from {{ ref('jobs') }}

),

final as (

    select
        *,
        {{ seconds_of('started_at') }} - {{ seconds_of('submitted_at') }} as launch_wait_seconds,
        -- A clock that ran backwards tells no time.
        case
            when ended_at >= submitted_at then {{ seconds_of('ended_at') }} - {{ seconds_of('submitted_at') }}
        end as turnaround_seconds
    from jobs

)

select * from final
