-- A group that is the user alone, since the source has no other or the name of the job says nothing, recurs in nothing.

with jobs as (

    select * from {{ ref('silver_jobs') }}

),

job_days as (

    select
        job_key,
        {{ sum_buckets(['held', 'lost', 'lost_at_least', 'inferred_lost']) }}
    from {{ ref('gold_job_efficiency_daily') }}
    group by job_key

),

final as (

    select
        jobs.cluster_id,
        jobs.group_id,
        cast(count(*) as bigint) as jobs,
        cast(count(distinct jobs.user_id) as bigint) as users,
        cast(count(case when {{ is_failed('jobs.status') }} then 1 end) as bigint) as failed_jobs,
        min(jobs.submitted_at) as first_submitted_at,
        max(jobs.submitted_at) as last_submitted_at,
        {{ quantile('jobs.turnaround_seconds', 0.5) }} as median_turnaround_seconds,
        stddev_pop(jobs.turnaround_seconds) / nullif(avg(jobs.turnaround_seconds), 0) as turnaround_cov_ratio,
        sum(coalesce(job_days.held_gpu_hours, 0)) as held_gpu_hours,
        sum(coalesce(job_days.lost_gpu_hours, 0)) as lost_gpu_hours,
        sum(coalesce(job_days.lost_at_least_gpu_hours, 0)) as lost_at_least_gpu_hours,
        sum(coalesce(job_days.inferred_lost_gpu_hours, 0)) as inferred_lost_gpu_hours
    from jobs
    left join job_days on jobs.job_key = job_days.job_key
    where jobs.group_id is not null and jobs.group_id is distinct from jobs.user_id
    group by jobs.cluster_id, jobs.group_id

)

select * from final
