with jobs as (

    select * from {{ ref('silver_jobs') }}
    where ended_at is not null and {{ has_ended('status') }}

),

clusters as (

    select * from {{ ref('silver_clusters') }}

),

hours as (

    select * from {{ ref('silver_hours') }}

),

ended as (

    select
        jobs.cluster_id,
        jobs.status,
        jobs.turnaround_seconds,
        {{ hour_number(seconds_of('jobs.ended_at'), 'clusters.hour_shift_seconds') }} as hour_number
    from jobs
    inner join clusters on jobs.cluster_id = clusters.cluster_id
    where jobs.ended_at >= clusters.observed_from and jobs.ended_at <= clusters.observed_until

),

final as (

    select
        ended.cluster_id,
        hours.dt,
        cast(count(*) as bigint) as ended_jobs,
        cast(count(*) filter (where ended.status = 'succeeded') as bigint) as succeeded_jobs,
        cast(count(*) filter (where {{ is_failed('ended.status') }}) as bigint) as failed_jobs,
        count(*) filter (where {{ is_failed('ended.status') }}) / cast(count(*) as double) as failed_ratio,
        {{ quantile('ended.turnaround_seconds', 0.5) }} as median_turnaround_seconds
    from ended
    inner join hours on ended.cluster_id = hours.cluster_id and ended.hour_number = hours.hour_number
    group by ended.cluster_id, hours.dt

)

select * from final
order by cluster_id, dt
