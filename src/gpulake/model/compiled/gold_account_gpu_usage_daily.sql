with job_days as (

    select * from "lake"."main"."gold_job_efficiency_daily"

),

jobs as (

    select * from "lake"."main"."silver_jobs"
    where coalesce(account_id, partition_id, qos_id, reservation_id) is not null

),

final as (

    select
        job_days.cluster_id,
        job_days.dt,
        job_days.gpu_type,
        jobs.account_id,
        jobs.partition_id,
        jobs.qos_id,
        jobs.reservation_id,
        cast(count(distinct job_days.job_key) as bigint) as jobs,
        cast(count(distinct job_days.user_id) as bigint) as users,
        sum(job_days.held_gpu_hours) as held_gpu_hours,
        sum(idle_gpu_hours) as idle_gpu_hours, sum(under_used_gpu_hours) as under_used_gpu_hours, sum(failed_gpu_hours) as failed_gpu_hours, sum(timed_out_gpu_hours) as timed_out_gpu_hours, sum(interrupted_gpu_hours) as interrupted_gpu_hours, sum(unobserved_gpu_hours) as unobserved_gpu_hours, sum(used_gpu_hours) as used_gpu_hours, sum(lost_gpu_hours) as lost_gpu_hours, sum(lost_at_least_gpu_hours) as lost_at_least_gpu_hours, sum(inferred_gpu_hours) as inferred_gpu_hours, sum(inferred_lost_gpu_hours) as inferred_lost_gpu_hours
    from job_days
    inner join jobs on job_days.job_key = jobs.job_key
    group by
        job_days.cluster_id, job_days.dt, job_days.gpu_type, jobs.account_id, jobs.partition_id, jobs.qos_id,
        jobs.reservation_id

)

select * from final
order by cluster_id, dt, gpu_type, account_id, partition_id, qos_id, reservation_id

-- test: an_account_has_a_day_once() error
select cluster_id, dt, gpu_type, account_id, partition_id, qos_id, reservation_id
from "lake"."main"."gold_account_gpu_usage_daily"
group by cluster_id, dt, gpu_type, account_id, partition_id, qos_id, reservation_id
having count(*) > 1

-- test: in_range_gold_account_gpu_usage_daily_0__failed_gpu_hours(failed_gpu_hours) error
where false
    or failed_gpu_hours < 0

-- test: in_range_gold_account_gpu_usage_daily_0__held_gpu_hours(held_gpu_hours) error
where false
    or held_gpu_hours < 0

-- test: in_range_gold_account_gpu_usage_daily_0__idle_gpu_hours(idle_gpu_hours) error
where false
    or idle_gpu_hours < 0

-- test: in_range_gold_account_gpu_usage_daily_0__inferred_gpu_hours(inferred_gpu_hours) error
where false
    or inferred_gpu_hours < 0

-- test: in_range_gold_account_gpu_usage_daily_0__inferred_lost_gpu_hours(inferred_lost_gpu_hours) error
where false
    or inferred_lost_gpu_hours < 0

-- test: in_range_gold_account_gpu_usage_daily_0__interrupted_gpu_hours(interrupted_gpu_hours) error
where false
    or interrupted_gpu_hours < 0

-- test: in_range_gold_account_gpu_usage_daily_0__jobs(jobs) error
where false
    or jobs < 0

-- test: in_range_gold_account_gpu_usage_daily_0__lost_at_least_gpu_hours(lost_at_least_gpu_hours) error
where false
    or lost_at_least_gpu_hours < 0

-- test: in_range_gold_account_gpu_usage_daily_0__lost_gpu_hours(lost_gpu_hours) error
where false
    or lost_gpu_hours < 0

-- test: in_range_gold_account_gpu_usage_daily_0__timed_out_gpu_hours(timed_out_gpu_hours) error
where false
    or timed_out_gpu_hours < 0

-- test: in_range_gold_account_gpu_usage_daily_0__under_used_gpu_hours(under_used_gpu_hours) error
where false
    or under_used_gpu_hours < 0

-- test: in_range_gold_account_gpu_usage_daily_0__unobserved_gpu_hours(unobserved_gpu_hours) error
where false
    or unobserved_gpu_hours < 0

-- test: in_range_gold_account_gpu_usage_daily_0__used_gpu_hours(used_gpu_hours) error
where false
    or used_gpu_hours < 0

-- test: in_range_gold_account_gpu_usage_daily_0__users(users) error
where false
    or users < 0

-- test: not_null_gold_account_gpu_usage_daily_cluster_id(cluster_id) error
where cluster_id is null

-- test: not_null_gold_account_gpu_usage_daily_dt(dt) error
where dt is null

-- test: not_null_gold_account_gpu_usage_daily_failed_gpu_hours(failed_gpu_hours) error
where failed_gpu_hours is null

-- test: not_null_gold_account_gpu_usage_daily_gpu_type(gpu_type) error
where gpu_type is null

-- test: not_null_gold_account_gpu_usage_daily_held_gpu_hours(held_gpu_hours) error
where held_gpu_hours is null

-- test: not_null_gold_account_gpu_usage_daily_idle_gpu_hours(idle_gpu_hours) error
where idle_gpu_hours is null

-- test: not_null_gold_account_gpu_usage_daily_inferred_gpu_hours(inferred_gpu_hours) error
where inferred_gpu_hours is null

-- test: not_null_gold_account_gpu_usage_daily_inferred_lost_gpu_hours(inferred_lost_gpu_hours) error
where inferred_lost_gpu_hours is null

-- test: not_null_gold_account_gpu_usage_daily_interrupted_gpu_hours(interrupted_gpu_hours) error
where interrupted_gpu_hours is null

-- test: not_null_gold_account_gpu_usage_daily_jobs(jobs) error
where jobs is null

-- test: not_null_gold_account_gpu_usage_daily_lost_at_least_gpu_hours(lost_at_least_gpu_hours) error
where lost_at_least_gpu_hours is null

-- test: not_null_gold_account_gpu_usage_daily_lost_gpu_hours(lost_gpu_hours) error
where lost_gpu_hours is null

-- test: not_null_gold_account_gpu_usage_daily_timed_out_gpu_hours(timed_out_gpu_hours) error
where timed_out_gpu_hours is null

-- test: not_null_gold_account_gpu_usage_daily_under_used_gpu_hours(under_used_gpu_hours) error
where under_used_gpu_hours is null

-- test: not_null_gold_account_gpu_usage_daily_unobserved_gpu_hours(unobserved_gpu_hours) error
where unobserved_gpu_hours is null

-- test: not_null_gold_account_gpu_usage_daily_used_gpu_hours(used_gpu_hours) error
where used_gpu_hours is null

-- test: not_null_gold_account_gpu_usage_daily_users(users) error
where users is null
