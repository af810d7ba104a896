with held_days as (

    select * from __dbt__cte__held_days

),

jobs as (

    select * from "lake"."main"."silver_jobs"

),

job_days as (

    select
        any_value(cluster_id) as cluster_id,
        dt,
        job_key,
        gpu_type,
        cast(count(*) as bigint) as attempts,
        sum(hours * gpus) as held_gpu_hours,
        
        sum(case
        when use_bucket = 'idle' then (hours - lost_hours) * gpus
        else 0
    end) as idle_gpu_hours,
    
        sum(case
        when use_bucket = 'used' then (hours - lost_hours) * (gpus - used_gpus)
        else 0
    end) as under_used_gpu_hours,
    
        sum(case
        when bucket = 'failed' then lost_hours * gpus
        else 0
    end) as failed_gpu_hours,
    
        sum(case
        when bucket = 'timed_out' then lost_hours * gpus
        else 0
    end) as timed_out_gpu_hours,
    
        sum(case
        when bucket = 'interrupted' then lost_hours * gpus
        else 0
    end) as interrupted_gpu_hours,
    
        sum(case
        when use_bucket = 'unobserved' then (hours - lost_hours) * gpus
        else 0
    end) as unobserved_gpu_hours,
    
        sum(case
        when use_bucket = 'used' then (hours - lost_hours) * used_gpus
        else 0
    end) as used_gpu_hours,
    
    sum(case when has_checkpoint then lost_hours * gpus else 0 end) as lost_at_least_gpu_hours,
    sum(case when is_inferred then hours * gpus else 0 end) as inferred_gpu_hours,
    sum(case when is_inferred then lost_hours * gpus else 0 end) as inferred_lost_gpu_hours,
        sum(case when used_gpus is not null then hours * gpus else 0 end) as sensed_gpu_hours,
        sum(case when used_gpus is not null then hours * used_gpus else 0 end) as measured_gpu_hours
    from held_days
    group by dt, job_key, gpu_type

),

final as (

    select
        job_days.cluster_id,
        job_days.dt,
        job_days.job_key,
        jobs.job_id,
        -- A job without a landed row still has a user: unknown.
        coalesce(jobs.user_id, 'unknown') as user_id,
        coalesce(jobs.group_id, jobs.user_id, 'unknown') as group_id,
        jobs.account_id,
        jobs.workload,
        job_days.gpu_type,
        jobs.status,
        job_days.attempts,
        job_days.held_gpu_hours,
        
            job_days.idle_gpu_hours,
        
            job_days.under_used_gpu_hours,
        
            job_days.failed_gpu_hours,
        
            job_days.timed_out_gpu_hours,
        
            job_days.interrupted_gpu_hours,
        
            job_days.unobserved_gpu_hours,
        
            job_days.used_gpu_hours,
        
        failed_gpu_hours + timed_out_gpu_hours + interrupted_gpu_hours as lost_gpu_hours,
        
            job_days.lost_at_least_gpu_hours,
        
            job_days.inferred_gpu_hours,
        
            job_days.inferred_lost_gpu_hours,
        
        job_days.measured_gpu_hours,
        job_days.measured_gpu_hours / nullif(job_days.sensed_gpu_hours, 0) as gpu_efficiency_ratio
    from job_days
    left join jobs on job_days.job_key = jobs.job_key

)

select * from final

-- test: a_job_has_a_day_once() error
select job_key, dt, gpu_type
from "lake"."main"."gold_job_efficiency_daily"
group by job_key, dt, gpu_type
having count(*) > 1

-- test: every_machine_that_is_held_is_listed() warn
where not (gpu_type != 'unlisted')

-- test: in_range_gold_job_efficiency_daily_0__1000000000000_0__attempts(attempts) error
where false
    or attempts < 0
    or attempts > 1000000000000.0

-- test: in_range_gold_job_efficiency_daily_0__1_000001__gpu_efficiency_ratio(gpu_efficiency_ratio) error
where false
    or gpu_efficiency_ratio < 0
    or gpu_efficiency_ratio > 1.000001

-- test: in_range_gold_job_efficiency_daily_0__failed_gpu_hours(failed_gpu_hours) error
where false
    or failed_gpu_hours < 0

-- test: in_range_gold_job_efficiency_daily_0__held_gpu_hours(held_gpu_hours) error
where false
    or held_gpu_hours < 0

-- test: in_range_gold_job_efficiency_daily_0__idle_gpu_hours(idle_gpu_hours) error
where false
    or idle_gpu_hours < 0

-- test: in_range_gold_job_efficiency_daily_0__inferred_gpu_hours(inferred_gpu_hours) error
where false
    or inferred_gpu_hours < 0

-- test: in_range_gold_job_efficiency_daily_0__inferred_lost_gpu_hours(inferred_lost_gpu_hours) error
where false
    or inferred_lost_gpu_hours < 0

-- test: in_range_gold_job_efficiency_daily_0__interrupted_gpu_hours(interrupted_gpu_hours) error
where false
    or interrupted_gpu_hours < 0

-- test: in_range_gold_job_efficiency_daily_0__lost_at_least_gpu_hours(lost_at_least_gpu_hours) error
where false
    or lost_at_least_gpu_hours < 0

-- test: in_range_gold_job_efficiency_daily_0__lost_gpu_hours(lost_gpu_hours) error
where false
    or lost_gpu_hours < 0

-- test: in_range_gold_job_efficiency_daily_0__measured_gpu_hours(measured_gpu_hours) error
where false
    or measured_gpu_hours < 0

-- test: in_range_gold_job_efficiency_daily_0__timed_out_gpu_hours(timed_out_gpu_hours) error
where false
    or timed_out_gpu_hours < 0

-- test: in_range_gold_job_efficiency_daily_0__under_used_gpu_hours(under_used_gpu_hours) error
where false
    or under_used_gpu_hours < 0

-- test: in_range_gold_job_efficiency_daily_0__unobserved_gpu_hours(unobserved_gpu_hours) error
where false
    or unobserved_gpu_hours < 0

-- test: in_range_gold_job_efficiency_daily_0__used_gpu_hours(used_gpu_hours) error
where false
    or used_gpu_hours < 0

-- test: not_null_gold_job_efficiency_daily_attempts(attempts) error
where attempts is null

-- test: not_null_gold_job_efficiency_daily_cluster_id(cluster_id) error
where cluster_id is null

-- test: not_null_gold_job_efficiency_daily_dt(dt) error
where dt is null

-- test: not_null_gold_job_efficiency_daily_failed_gpu_hours(failed_gpu_hours) error
where failed_gpu_hours is null

-- test: not_null_gold_job_efficiency_daily_gpu_type(gpu_type) error
where gpu_type is null

-- test: not_null_gold_job_efficiency_daily_held_gpu_hours(held_gpu_hours) error
where held_gpu_hours is null

-- test: not_null_gold_job_efficiency_daily_idle_gpu_hours(idle_gpu_hours) error
where idle_gpu_hours is null

-- test: not_null_gold_job_efficiency_daily_inferred_gpu_hours(inferred_gpu_hours) error
where inferred_gpu_hours is null

-- test: not_null_gold_job_efficiency_daily_inferred_lost_gpu_hours(inferred_lost_gpu_hours) error
where inferred_lost_gpu_hours is null

-- test: not_null_gold_job_efficiency_daily_interrupted_gpu_hours(interrupted_gpu_hours) error
where interrupted_gpu_hours is null

-- test: not_null_gold_job_efficiency_daily_job_key(job_key) error
where job_key is null

-- test: not_null_gold_job_efficiency_daily_lost_at_least_gpu_hours(lost_at_least_gpu_hours) error
where lost_at_least_gpu_hours is null

-- test: not_null_gold_job_efficiency_daily_lost_gpu_hours(lost_gpu_hours) error
where lost_gpu_hours is null

-- test: not_null_gold_job_efficiency_daily_measured_gpu_hours(measured_gpu_hours) error
where measured_gpu_hours is null

-- test: not_null_gold_job_efficiency_daily_timed_out_gpu_hours(timed_out_gpu_hours) error
where timed_out_gpu_hours is null

-- test: not_null_gold_job_efficiency_daily_under_used_gpu_hours(under_used_gpu_hours) error
where under_used_gpu_hours is null

-- test: not_null_gold_job_efficiency_daily_unobserved_gpu_hours(unobserved_gpu_hours) error
where unobserved_gpu_hours is null

-- test: not_null_gold_job_efficiency_daily_used_gpu_hours(used_gpu_hours) error
where used_gpu_hours is null

-- test: what_a_job_held_is_in_the_buckets() error
where not (abs(idle_gpu_hours + under_used_gpu_hours + lost_gpu_hours + unobserved_gpu_hours + used_gpu_hours - held_gpu_hours) <= 0.001 * held_gpu_hours)
