with jobs as (

    select * from {{ ref('jobs') }}

),

details as (

    select * from {{ ref('job_details') }}

),

final as (

    select
        jobs.*,
        {{ seconds_of('jobs.started_at') }} - {{ seconds_of('jobs.submitted_at') }} as launch_wait_seconds,
        -- A clock that ran backwards tells no time.
        case
            when jobs.ended_at >= jobs.submitted_at
                then {{ seconds_of('jobs.ended_at') }} - {{ seconds_of('jobs.submitted_at') }}
        end as turnaround_seconds,
        details.partition_id,
        details.qos_id,
        details.reservation_id,
        details.wait_reason
    from jobs
    left join details on jobs.job_key = details.job_key

)

select * from final
