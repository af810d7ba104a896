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
        {{ sum_buckets(held_buckets() + ['lost'] + held_notes()) }}
    from job_days
    group by cluster_id, user_id, dt

)

select * from final
order by cluster_id, dt, user_id
