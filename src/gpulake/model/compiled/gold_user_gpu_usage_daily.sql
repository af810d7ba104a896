with job_days as (

    select * from "lake"."main"."gold_job_efficiency_daily"

),

final as (

    select
        cluster_id,
        user_id,
        dt,
        cast(count(distinct job_key) as bigint) as jobs,
        cast(count(distinct case when status in ('failed', 'node_fail') then job_key end) as bigint) as failed_jobs,
        sum(held_gpu_hours) as held_gpu_hours,
        sum(idle_gpu_hours) as idle_gpu_hours, sum(under_used_gpu_hours) as under_used_gpu_hours, sum(failed_gpu_hours) as failed_gpu_hours, sum(timed_out_gpu_hours) as timed_out_gpu_hours, sum(interrupted_gpu_hours) as interrupted_gpu_hours, sum(unobserved_gpu_hours) as unobserved_gpu_hours, sum(used_gpu_hours) as used_gpu_hours, sum(lost_gpu_hours) as lost_gpu_hours, sum(lost_at_least_gpu_hours) as lost_at_least_gpu_hours, sum(inferred_gpu_hours) as inferred_gpu_hours, sum(inferred_lost_gpu_hours) as inferred_lost_gpu_hours
    from job_days
    group by cluster_id, user_id, dt

)

select * from final
order by cluster_id, dt, user_id

-- test: a_user_has_a_day_once() error
select cluster_id, user_id, dt
from "lake"."main"."gold_user_gpu_usage_daily"
group by cluster_id, user_id, dt
having count(*) > 1

-- test: in_range_gold_user_gpu_usage_daily_0__1000000000000_0__jobs(jobs) error
where false
    or jobs < 0
    or jobs > 1000000000000.0

-- test: in_range_gold_user_gpu_usage_daily_0__failed_gpu_hours(failed_gpu_hours) error
where false
    or failed_gpu_hours < 0

-- test: in_range_gold_user_gpu_usage_daily_0__failed_jobs(failed_jobs) error
where false
    or failed_jobs < 0

-- test: in_range_gold_user_gpu_usage_daily_0__held_gpu_hours(held_gpu_hours) error
where false
    or held_gpu_hours < 0

-- test: in_range_gold_user_gpu_usage_daily_0__idle_gpu_hours(idle_gpu_hours) error
where false
    or idle_gpu_hours < 0

-- test: in_range_gold_user_gpu_usage_daily_0__inferred_gpu_hours(inferred_gpu_hours) error
where false
    or inferred_gpu_hours < 0

-- test: in_range_gold_user_gpu_usage_daily_0__inferred_lost_gpu_hours(inferred_lost_gpu_hours) error
where false
    or inferred_lost_gpu_hours < 0

-- test: in_range_gold_user_gpu_usage_daily_0__interrupted_gpu_hours(interrupted_gpu_hours) error
where false
    or interrupted_gpu_hours < 0

-- test: in_range_gold_user_gpu_usage_daily_0__lost_at_least_gpu_hours(lost_at_least_gpu_hours) error
where false
    or lost_at_least_gpu_hours < 0

-- test: in_range_gold_user_gpu_usage_daily_0__lost_gpu_hours(lost_gpu_hours) error
where false
    or lost_gpu_hours < 0

-- test: in_range_gold_user_gpu_usage_daily_0__timed_out_gpu_hours(timed_out_gpu_hours) error
where false
    or timed_out_gpu_hours < 0

-- test: in_range_gold_user_gpu_usage_daily_0__under_used_gpu_hours(under_used_gpu_hours) error
where false
    or under_used_gpu_hours < 0

-- test: in_range_gold_user_gpu_usage_daily_0__unobserved_gpu_hours(unobserved_gpu_hours) error
where false
    or unobserved_gpu_hours < 0

-- test: in_range_gold_user_gpu_usage_daily_0__used_gpu_hours(used_gpu_hours) error
where false
    or used_gpu_hours < 0

-- test: not_null_gold_user_gpu_usage_daily_cluster_id(cluster_id) error
where cluster_id is null

-- test: not_null_gold_user_gpu_usage_daily_dt(dt) error
where dt is null

-- test: not_null_gold_user_gpu_usage_daily_failed_gpu_hours(failed_gpu_hours) error
where failed_gpu_hours is null

-- test: not_null_gold_user_gpu_usage_daily_failed_jobs(failed_jobs) error
where failed_jobs is null

-- test: not_null_gold_user_gpu_usage_daily_held_gpu_hours(held_gpu_hours) error
where held_gpu_hours is null

-- test: not_null_gold_user_gpu_usage_daily_idle_gpu_hours(idle_gpu_hours) error
where idle_gpu_hours is null

-- test: not_null_gold_user_gpu_usage_daily_inferred_gpu_hours(inferred_gpu_hours) error
where inferred_gpu_hours is null

-- test: not_null_gold_user_gpu_usage_daily_inferred_lost_gpu_hours(inferred_lost_gpu_hours) error
where inferred_lost_gpu_hours is null

-- test: not_null_gold_user_gpu_usage_daily_interrupted_gpu_hours(interrupted_gpu_hours) error
where interrupted_gpu_hours is null

-- test: not_null_gold_user_gpu_usage_daily_jobs(jobs) error
where jobs is null

-- test: not_null_gold_user_gpu_usage_daily_lost_at_least_gpu_hours(lost_at_least_gpu_hours) error
where lost_at_least_gpu_hours is null

-- test: not_null_gold_user_gpu_usage_daily_lost_gpu_hours(lost_gpu_hours) error
where lost_gpu_hours is null

-- test: not_null_gold_user_gpu_usage_daily_timed_out_gpu_hours(timed_out_gpu_hours) error
where timed_out_gpu_hours is null

-- test: not_null_gold_user_gpu_usage_daily_under_used_gpu_hours(under_used_gpu_hours) error
where under_used_gpu_hours is null

-- test: not_null_gold_user_gpu_usage_daily_unobserved_gpu_hours(unobserved_gpu_hours) error
where unobserved_gpu_hours is null

-- test: not_null_gold_user_gpu_usage_daily_used_gpu_hours(used_gpu_hours) error
where used_gpu_hours is null
