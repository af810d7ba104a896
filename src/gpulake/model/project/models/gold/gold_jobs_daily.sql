with jobs as (

    select * from {{ ref('silver_jobs') }}

),

final as (

    select
        {{ local_day('ended_at', trace_time_zone()) }} as dt,
        cast(count(*) as bigint) as ended_jobs,
        cast(count(*) filter (where status = 'succeeded') as bigint) as succeeded_jobs,
        cast(count(*) filter (where status = 'failed') as bigint) as failed_jobs,
        count(*) filter (where status = 'failed') / cast(count(*) as double) as failed_ratio,
        {{ quantile('turnaround_seconds', 0.5) }} as median_turnaround_seconds
    from jobs
    where ended_at is not null
    group by dt

)

select * from final
order by dt
