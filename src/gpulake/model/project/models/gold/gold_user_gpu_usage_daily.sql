with job_days as (

    select * from {{ ref('gold_job_efficiency_daily') }}

),

final as (

    select
        cluster_id,
        user_id,
        dt,
        cast(count(distinct job_key) as bigint) as jobs,
        cast(count(distinct case when {{ is_failed('status') }} then job_key end) as bigint) as failed_jobs,
        sum(held_gpu_hours) as held_gpu_hours,
        sum(productive_gpu_hours) as productive_gpu_hours,
        sum(idle_gpu_hours) as idle_gpu_hours,
        sum(under_used_gpu_hours) as under_used_gpu_hours,
        sum(lost_gpu_hours) as lost_gpu_hours,
        sum(unobserved_gpu_hours) as unobserved_gpu_hours,
        sum(inferred_gpu_hours) as inferred_gpu_hours
    from job_days
    group by cluster_id, user_id, dt

)

select * from final
order by cluster_id, dt, user_id
