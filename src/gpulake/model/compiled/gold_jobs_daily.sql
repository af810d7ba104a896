with jobs as (

    select * from "lake"."main"."silver_jobs"
    where ended_at is not null and status not in ('running', 'waiting')

),

clusters as (

    select * from "lake"."main"."silver_clusters"

),

hours as (

    select * from "lake"."main"."silver_hours"

),

ended as (

    select
        jobs.cluster_id,
        jobs.status,
        jobs.turnaround_seconds,
        cast(floor(((epoch_us(jobs.ended_at) / 1e6) + clusters.hour_shift_seconds) / 3600) as bigint) as hour_number
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
        cast(count(*) filter (where ended.status in ('failed', 'node_fail')) as bigint) as failed_jobs,
        count(*) filter (where ended.status in ('failed', 'node_fail')) / cast(count(*) as double) as failed_ratio,
        quantile_cont(ended.turnaround_seconds, 0.5) as median_turnaround_seconds
    from ended
    inner join hours on ended.cluster_id = hours.cluster_id and ended.hour_number = hours.hour_number
    group by ended.cluster_id, hours.dt

)

select * from final
order by cluster_id, dt

-- test: a_cluster_ends_jobs_once_a_day() error
select cluster_id, dt
from "lake"."main"."gold_jobs_daily"
group by cluster_id, dt
having count(*) > 1

-- test: a_job_ends_one_way() error
where not (succeeded_jobs + failed_jobs <= ended_jobs)

-- test: in_range_gold_jobs_daily_0__1__failed_ratio(failed_ratio) error
where false
    or failed_ratio < 0
    or failed_ratio > 1

-- test: in_range_gold_jobs_daily_0__failed_jobs(failed_jobs) error
where false
    or failed_jobs < 0

-- test: in_range_gold_jobs_daily_0__succeeded_jobs(succeeded_jobs) error
where false
    or succeeded_jobs < 0

-- test: in_range_gold_jobs_daily_1__ended_jobs(ended_jobs) error
where false
    or ended_jobs < 1

-- test: not_null_gold_jobs_daily_cluster_id(cluster_id) error
where cluster_id is null

-- test: not_null_gold_jobs_daily_dt(dt) error
where dt is null
