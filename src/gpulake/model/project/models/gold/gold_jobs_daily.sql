with jobs as (

    select * from {{ ref('silver_jobs') }}

),

clusters as (

    select * from {{ ref('silver_clusters') }}

),

final as (

    select
        jobs.cluster_id,
        {{ local_day('jobs.ended_at', 'clusters.time_zone') }} as dt,
        cast(count(*) as bigint) as ended_jobs,
        cast(count(*) filter (where jobs.status = 'succeeded') as bigint) as succeeded_jobs,
        cast(count(*) filter (where jobs.status = 'failed') as bigint) as failed_jobs,
        count(*) filter (where jobs.status = 'failed') / cast(count(*) as double) as failed_ratio,
        {{ quantile('jobs.turnaround_seconds', 0.5) }} as median_turnaround_seconds
    from jobs
    inner join clusters on jobs.cluster_id = clusters.cluster_id
    where jobs.ended_at is not null
    group by jobs.cluster_id, dt

)

select * from final
order by cluster_id, dt
