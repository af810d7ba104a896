with jobs as (

    select * from {{ ref('jobs') }}

),

final as (

    select
        *,
        {{ seconds_of('started_at') }} - {{ seconds_of('submitted_at') }} as launch_wait_seconds,
        {{ seconds_of('ended_at') }} - {{ seconds_of('submitted_at') }} as turnaround_seconds
    from jobs

)

select * from final
