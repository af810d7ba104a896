-- The hours of the hourly ledger by holder. Claims beyond a machine's capacity in an hour are cut from the claims of
-- that hour.



with ledger as (

    select * from "lake"."main"."gold_ledger_hourly"

),

job_days as (

    select * from "lake"."main"."gold_job_efficiency_daily"
    where gpu_type != 'unlisted'

),

overcommits as (

    select * from "lake"."main"."silver_overcommits"

),

excess as (

    select
        dt,
        job_key,
        gpu_type,
        
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
    sum(case when is_inferred then lost_hours * gpus else 0 end) as inferred_lost_gpu_hours
    from overcommits
    group by dt, job_key, gpu_type

),

claims as (

    select
        job_days.cluster_id,
        job_days.dt,
        job_days.gpu_type,
        job_days.user_id,
        job_days.group_id,
        job_days.account_id,
        
            -- Sums of floats: what is left of nothing is nothing.
            greatest(job_days.idle_gpu_hours - coalesce(excess.idle_gpu_hours, 0), 0)
                as idle_gpu_hours,
        
            -- Sums of floats: what is left of nothing is nothing.
            greatest(job_days.under_used_gpu_hours - coalesce(excess.under_used_gpu_hours, 0), 0)
                as under_used_gpu_hours,
        
            -- Sums of floats: what is left of nothing is nothing.
            greatest(job_days.failed_gpu_hours - coalesce(excess.failed_gpu_hours, 0), 0)
                as failed_gpu_hours,
        
            -- Sums of floats: what is left of nothing is nothing.
            greatest(job_days.timed_out_gpu_hours - coalesce(excess.timed_out_gpu_hours, 0), 0)
                as timed_out_gpu_hours,
        
            -- Sums of floats: what is left of nothing is nothing.
            greatest(job_days.interrupted_gpu_hours - coalesce(excess.interrupted_gpu_hours, 0), 0)
                as interrupted_gpu_hours,
        
            -- Sums of floats: what is left of nothing is nothing.
            greatest(job_days.unobserved_gpu_hours - coalesce(excess.unobserved_gpu_hours, 0), 0)
                as unobserved_gpu_hours,
        
            -- Sums of floats: what is left of nothing is nothing.
            greatest(job_days.used_gpu_hours - coalesce(excess.used_gpu_hours, 0), 0)
                as used_gpu_hours,
        
            -- Sums of floats: what is left of nothing is nothing.
            greatest(job_days.lost_at_least_gpu_hours - coalesce(excess.lost_at_least_gpu_hours, 0), 0)
                as lost_at_least_gpu_hours,
        
            -- Sums of floats: what is left of nothing is nothing.
            greatest(job_days.inferred_gpu_hours - coalesce(excess.inferred_gpu_hours, 0), 0)
                as inferred_gpu_hours,
        
            -- Sums of floats: what is left of nothing is nothing.
            greatest(job_days.inferred_lost_gpu_hours - coalesce(excess.inferred_lost_gpu_hours, 0), 0)
                as inferred_lost_gpu_hours,
        
        job_days.workload
    from job_days
    left join excess
        on
            job_days.job_key = excess.job_key and job_days.dt = excess.dt and job_days.gpu_type = excess.gpu_type

),

held as (

    select
        cluster_id,
        dt,
        gpu_type,
        user_id,
        group_id,
        account_id,
        workload,
        sum(idle_gpu_hours) as idle_gpu_hours, sum(under_used_gpu_hours) as under_used_gpu_hours, sum(failed_gpu_hours) as failed_gpu_hours, sum(timed_out_gpu_hours) as timed_out_gpu_hours, sum(interrupted_gpu_hours) as interrupted_gpu_hours, sum(unobserved_gpu_hours) as unobserved_gpu_hours, sum(used_gpu_hours) as used_gpu_hours, sum(lost_at_least_gpu_hours) as lost_at_least_gpu_hours, sum(inferred_gpu_hours) as inferred_gpu_hours, sum(inferred_lost_gpu_hours) as inferred_lost_gpu_hours
    from claims
    group by cluster_id, dt, gpu_type, user_id, group_id, account_id, workload

),

final as (

    select
        cluster_id,
        dt,
        gpu_type,
        user_id,
        group_id,
        account_id,
        workload,
        idle_gpu_hours + under_used_gpu_hours + failed_gpu_hours + timed_out_gpu_hours + interrupted_gpu_hours + unobserved_gpu_hours + used_gpu_hours as capacity_gpu_hours,
        
            0e0 as down_gpu_hours,
        
            0e0 as unknown_gpu_hours,
        
            0e0 as unallocated_gpu_hours,
        
            idle_gpu_hours,
        
            under_used_gpu_hours,
        
            failed_gpu_hours,
        
            timed_out_gpu_hours,
        
            interrupted_gpu_hours,
        
            unobserved_gpu_hours,
        
            used_gpu_hours,
        
        failed_gpu_hours + timed_out_gpu_hours + interrupted_gpu_hours as lost_gpu_hours,
        lost_at_least_gpu_hours, inferred_gpu_hours, inferred_lost_gpu_hours
    from held

    union all

    select
        cluster_id,
        dt,
        gpu_type,
        cast(null as varchar) as user_id,
        cast(null as varchar) as group_id,
        cast(null as varchar) as account_id,
        cast(null as varchar) as workload,
        sum(down_gpu_hours + unknown_gpu_hours + unallocated_gpu_hours) as capacity_gpu_hours,
        
            sum(down_gpu_hours) as down_gpu_hours,
        
            sum(unknown_gpu_hours) as unknown_gpu_hours,
        
            sum(unallocated_gpu_hours) as unallocated_gpu_hours,
        
            0e0 as idle_gpu_hours,
        
            0e0 as under_used_gpu_hours,
        
            0e0 as failed_gpu_hours,
        
            0e0 as timed_out_gpu_hours,
        
            0e0 as interrupted_gpu_hours,
        
            0e0 as unobserved_gpu_hours,
        
            0e0 as used_gpu_hours,
        
        0e0 as lost_gpu_hours, 0e0 as lost_at_least_gpu_hours, 0e0 as inferred_gpu_hours, 0e0 as inferred_lost_gpu_hours
    from ledger
    group by cluster_id, dt, gpu_type

)

select * from final

-- test: in_range_gold_ledger_daily_0__capacity_gpu_hours(capacity_gpu_hours) error
where false
    or capacity_gpu_hours < 0

-- test: in_range_gold_ledger_daily_0__down_gpu_hours(down_gpu_hours) error
where false
    or down_gpu_hours < 0

-- test: in_range_gold_ledger_daily_0__failed_gpu_hours(failed_gpu_hours) error
where false
    or failed_gpu_hours < 0

-- test: in_range_gold_ledger_daily_0__idle_gpu_hours(idle_gpu_hours) error
where false
    or idle_gpu_hours < 0

-- test: in_range_gold_ledger_daily_0__inferred_gpu_hours(inferred_gpu_hours) error
where false
    or inferred_gpu_hours < 0

-- test: in_range_gold_ledger_daily_0__inferred_lost_gpu_hours(inferred_lost_gpu_hours) error
where false
    or inferred_lost_gpu_hours < 0

-- test: in_range_gold_ledger_daily_0__interrupted_gpu_hours(interrupted_gpu_hours) error
where false
    or interrupted_gpu_hours < 0

-- test: in_range_gold_ledger_daily_0__lost_at_least_gpu_hours(lost_at_least_gpu_hours) error
where false
    or lost_at_least_gpu_hours < 0

-- test: in_range_gold_ledger_daily_0__lost_gpu_hours(lost_gpu_hours) error
where false
    or lost_gpu_hours < 0

-- test: in_range_gold_ledger_daily_0__timed_out_gpu_hours(timed_out_gpu_hours) error
where false
    or timed_out_gpu_hours < 0

-- test: in_range_gold_ledger_daily_0__unallocated_gpu_hours(unallocated_gpu_hours) error
where false
    or unallocated_gpu_hours < 0

-- test: in_range_gold_ledger_daily_0__under_used_gpu_hours(under_used_gpu_hours) error
where false
    or under_used_gpu_hours < 0

-- test: in_range_gold_ledger_daily_0__unknown_gpu_hours(unknown_gpu_hours) error
where false
    or unknown_gpu_hours < 0

-- test: in_range_gold_ledger_daily_0__unobserved_gpu_hours(unobserved_gpu_hours) error
where false
    or unobserved_gpu_hours < 0

-- test: in_range_gold_ledger_daily_0__used_gpu_hours(used_gpu_hours) error
where false
    or used_gpu_hours < 0

-- test: not_null_gold_ledger_daily_capacity_gpu_hours(capacity_gpu_hours) error
where capacity_gpu_hours is null

-- test: not_null_gold_ledger_daily_cluster_id(cluster_id) error
where cluster_id is null

-- test: not_null_gold_ledger_daily_down_gpu_hours(down_gpu_hours) error
where down_gpu_hours is null

-- test: not_null_gold_ledger_daily_dt(dt) error
where dt is null

-- test: not_null_gold_ledger_daily_failed_gpu_hours(failed_gpu_hours) error
where failed_gpu_hours is null

-- test: not_null_gold_ledger_daily_gpu_type(gpu_type) error
where gpu_type is null

-- test: not_null_gold_ledger_daily_idle_gpu_hours(idle_gpu_hours) error
where idle_gpu_hours is null

-- test: not_null_gold_ledger_daily_inferred_gpu_hours(inferred_gpu_hours) error
where inferred_gpu_hours is null

-- test: not_null_gold_ledger_daily_inferred_lost_gpu_hours(inferred_lost_gpu_hours) error
where inferred_lost_gpu_hours is null

-- test: not_null_gold_ledger_daily_interrupted_gpu_hours(interrupted_gpu_hours) error
where interrupted_gpu_hours is null

-- test: not_null_gold_ledger_daily_lost_at_least_gpu_hours(lost_at_least_gpu_hours) error
where lost_at_least_gpu_hours is null

-- test: not_null_gold_ledger_daily_lost_gpu_hours(lost_gpu_hours) error
where lost_gpu_hours is null

-- test: not_null_gold_ledger_daily_timed_out_gpu_hours(timed_out_gpu_hours) error
where timed_out_gpu_hours is null

-- test: not_null_gold_ledger_daily_unallocated_gpu_hours(unallocated_gpu_hours) error
where unallocated_gpu_hours is null

-- test: not_null_gold_ledger_daily_under_used_gpu_hours(under_used_gpu_hours) error
where under_used_gpu_hours is null

-- test: not_null_gold_ledger_daily_unknown_gpu_hours(unknown_gpu_hours) error
where unknown_gpu_hours is null

-- test: not_null_gold_ledger_daily_unobserved_gpu_hours(unobserved_gpu_hours) error
where unobserved_gpu_hours is null

-- test: not_null_gold_ledger_daily_used_gpu_hours(used_gpu_hours) error
where used_gpu_hours is null

-- test: the_daily_ledger_closes() error
select cluster_id, dt, gpu_type
from "lake"."main"."gold_ledger_daily"
group by cluster_id, dt, gpu_type
having
    abs(
        sum(down_gpu_hours + unknown_gpu_hours + unallocated_gpu_hours + idle_gpu_hours + under_used_gpu_hours + failed_gpu_hours + timed_out_gpu_hours + interrupted_gpu_hours + unobserved_gpu_hours + used_gpu_hours)
        - sum(capacity_gpu_hours)
    ) > 0.001 * sum(capacity_gpu_hours)

-- test: the_daily_ledger_has_all_of_the_hourly() error
select cluster_id, dt, gpu_type
from (
    select cluster_id, dt, gpu_type, capacity_gpu_hours as here, 0e0 as there from "lake"."main"."gold_ledger_daily"
    union all
    select cluster_id, dt, gpu_type, 0e0 as here, capacity_gpu_hours as there from "lake"."main"."gold_ledger_hourly"
) as both_sides
group by cluster_id, dt, gpu_type
having abs(sum(here) - sum(there)) > 0.001 * sum(there) + 0.000001

-- test: what_users_lost_is_what_was_lost() error
select cluster_id, dt, gpu_type
from (
    select cluster_id, dt, gpu_type, lost_gpu_hours as here, 0e0 as there from "lake"."main"."gold_ledger_daily"
    union all
    select cluster_id, dt, gpu_type, 0e0 as here, lost_gpu_hours as there from "lake"."main"."gold_ledger_hourly"
) as both_sides
group by cluster_id, dt, gpu_type
having abs(sum(here) - sum(there)) > 0.001 * sum(there) + 0.000001

-- test: what_users_used_is_what_was_used() error
select cluster_id, dt, gpu_type
from (
    select cluster_id, dt, gpu_type, used_gpu_hours as here, 0e0 as there from "lake"."main"."gold_ledger_daily"
    union all
    select cluster_id, dt, gpu_type, 0e0 as here, used_gpu_hours as there from "lake"."main"."gold_ledger_hourly"
) as both_sides
group by cluster_id, dt, gpu_type
having abs(sum(here) - sum(there)) > 0.001 * sum(there) + 0.000001

-- test: whose_hours_is_told_once() error
select cluster_id, dt, gpu_type, user_id, group_id, account_id, workload
from "lake"."main"."gold_ledger_daily"
group by cluster_id, dt, gpu_type, user_id, group_id, account_id, workload
having count(*) > 1
