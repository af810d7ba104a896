-- A group that is the user alone, since the source has no other or the name of the job says nothing, recurs in nothing.

with jobs as (

    select * from "lake"."main"."silver_jobs"

),

job_days as (

    select
        job_key,
        sum(held_gpu_hours) as held_gpu_hours, sum(lost_gpu_hours) as lost_gpu_hours, sum(lost_at_least_gpu_hours) as lost_at_least_gpu_hours, sum(inferred_lost_gpu_hours) as inferred_lost_gpu_hours
    from "lake"."main"."gold_job_efficiency_daily"
    group by job_key

),

final as (

    select
        jobs.cluster_id,
        jobs.group_id,
        cast(count(*) as bigint) as jobs,
        cast(count(distinct jobs.user_id) as bigint) as users,
        cast(count(case when jobs.status in ('failed', 'node_fail') then 1 end) as bigint) as failed_jobs,
        min(jobs.submitted_at) as first_submitted_at,
        max(jobs.submitted_at) as last_submitted_at,
        quantile_cont(jobs.turnaround_seconds, 0.5) as median_turnaround_seconds,
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

-- test: a_group_recurs_once() error
select cluster_id, group_id
from "lake"."main"."gold_group_recurrence"
group by cluster_id, group_id
having count(*) > 1

-- test: in_range_gold_group_recurrence_0__1000000000000_0__jobs(jobs) error
where false
    or jobs < 0
    or jobs > 1000000000000.0

-- test: in_range_gold_group_recurrence_0__failed_jobs(failed_jobs) error
where false
    or failed_jobs < 0

-- test: in_range_gold_group_recurrence_0__held_gpu_hours(held_gpu_hours) error
where false
    or held_gpu_hours < 0

-- test: in_range_gold_group_recurrence_0__inferred_lost_gpu_hours(inferred_lost_gpu_hours) error
where false
    or inferred_lost_gpu_hours < 0

-- test: in_range_gold_group_recurrence_0__lost_at_least_gpu_hours(lost_at_least_gpu_hours) error
where false
    or lost_at_least_gpu_hours < 0

-- test: in_range_gold_group_recurrence_0__lost_gpu_hours(lost_gpu_hours) error
where false
    or lost_gpu_hours < 0

-- test: in_range_gold_group_recurrence_0__turnaround_cov_ratio(turnaround_cov_ratio) error
where false
    or turnaround_cov_ratio < 0

-- test: in_range_gold_group_recurrence_0__users(users) error
where false
    or users < 0

-- test: not_null_gold_group_recurrence_cluster_id(cluster_id) error
where cluster_id is null

-- test: not_null_gold_group_recurrence_failed_jobs(failed_jobs) error
where failed_jobs is null

-- test: not_null_gold_group_recurrence_group_id(group_id) error
where group_id is null

-- test: not_null_gold_group_recurrence_held_gpu_hours(held_gpu_hours) error
where held_gpu_hours is null

-- test: not_null_gold_group_recurrence_inferred_lost_gpu_hours(inferred_lost_gpu_hours) error
where inferred_lost_gpu_hours is null

-- test: not_null_gold_group_recurrence_jobs(jobs) error
where jobs is null

-- test: not_null_gold_group_recurrence_lost_at_least_gpu_hours(lost_at_least_gpu_hours) error
where lost_at_least_gpu_hours is null

-- test: not_null_gold_group_recurrence_lost_gpu_hours(lost_gpu_hours) error
where lost_gpu_hours is null

-- test: not_null_gold_group_recurrence_users(users) error
where users is null
