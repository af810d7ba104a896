with plans as (

    select * from {{ ref('plans') }}

),

jobs as (

    select * from {{ ref('silver_jobs') }}

),

instances as (

    select * from {{ ref('silver_instances') }}

),

starts as (

    select
        task_key,
        min(started_at) as started_at
    from instances
    group by task_key

),

final as (

    select
        plans.task_key,
        plans.job_key,
        plans.cluster_id,
        jobs.job_id,
        plans.task_name,
        plans.planned_instances,
        plans.status,
        plans.launched_at,
        starts.started_at,
        plans.ended_at,
        {{ seconds_of('plans.launched_at') }} - {{ seconds_of('jobs.submitted_at') }} as launch_wait_seconds,
        {{ seconds_of('starts.started_at') }} - {{ seconds_of('plans.launched_at') }} as start_wait_seconds,
        plans.requested_cores,
        plans.requested_memory_bytes,
        plans.requested_gpus,
        plans.gpu_type
    from plans
    left join jobs on plans.job_key = jobs.job_key
    left join starts on plans.task_key = starts.task_key

)

select * from final
