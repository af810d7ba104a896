with job_days as (

    select * from {{ ref('gold_job_efficiency_daily') }}

),

jobs as (

    select * from {{ ref('silver_jobs') }}
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
        {{ sum_buckets(held_buckets() + ['lost'] + held_notes()) }}
    from job_days
    inner join jobs on job_days.job_key = jobs.job_key
    group by
        job_days.cluster_id, job_days.dt, job_days.gpu_type, jobs.account_id, jobs.partition_id, jobs.qos_id,
        jobs.reservation_id

)

select * from final
order by cluster_id, dt, gpu_type, account_id, partition_id, qos_id, reservation_id
