with held_days as (

    select * from {{ ref('held_days') }}

),

jobs as (

    select * from {{ ref('silver_jobs') }}

),

job_days as (

    select
        any_value(cluster_id) as cluster_id,
        dt,
        job_key,
        gpu_type,
        cast(count(*) as bigint) as attempts,
        sum(hours * gpus) as held_gpu_hours,
        {{ sum_pieces() }},
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
        {% for bucket in held_buckets() %}
            job_days.{{ bucket }}_gpu_hours,
        {% endfor %}
        {{ lost_gpu_hours() }} as lost_gpu_hours,
        {% for note in held_notes() %}
            job_days.{{ note }}_gpu_hours,
        {% endfor %}
        job_days.measured_gpu_hours,
        job_days.measured_gpu_hours / nullif(job_days.sensed_gpu_hours, 0) as gpu_efficiency_ratio
    from job_days
    left join jobs on job_days.job_key = jobs.job_key

)

select * from final
