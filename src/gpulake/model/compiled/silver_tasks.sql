with plans as (

    select * from __dbt__cte__plans

),

jobs as (

    select * from "lake"."main"."silver_jobs"

),

instances as (

    select * from "lake"."main"."silver_instances"

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
        (epoch_us(plans.launched_at) / 1e6) - (epoch_us(jobs.submitted_at) / 1e6) as launch_wait_seconds,
        (epoch_us(starts.started_at) / 1e6) - (epoch_us(plans.launched_at) / 1e6) as start_wait_seconds,
        plans.requested_cores,
        plans.requested_memory_bytes,
        plans.requested_gpus,
        plans.gpu_type
    from plans
    left join jobs on plans.job_key = jobs.job_key
    left join starts on plans.task_key = starts.task_key

)

select * from final

-- test: accepted_values_silver_tasks_status__succeeded__failed__node_fail__timeout__interrupted__cancelled__running__waiting__unknown(status) error
where status not in ('succeeded', 'failed', 'node_fail', 'timeout', 'interrupted', 'cancelled', 'running', 'waiting', 'unknown')

-- test: in_range_silver_tasks_0__launch_wait_seconds(launch_wait_seconds) warn
where false
    or launch_wait_seconds < 0

-- test: in_range_silver_tasks_0__requested_cores(requested_cores) error
where false
    or requested_cores < 0

-- test: in_range_silver_tasks_0__requested_gpus(requested_gpus) error
where false
    or requested_gpus < 0

-- test: in_range_silver_tasks_0__requested_memory_bytes(requested_memory_bytes) error
where false
    or requested_memory_bytes < 0

-- test: in_range_silver_tasks_0__start_wait_seconds(start_wait_seconds) warn
where false
    or start_wait_seconds < 0

-- test: not_null_silver_tasks_cluster_id(cluster_id) error
where cluster_id is null

-- test: not_null_silver_tasks_job_key(job_key) error
where job_key is null

-- test: not_null_silver_tasks_requested_gpus(requested_gpus) error
where requested_gpus is null

-- test: not_null_silver_tasks_status(status) error
where status is null

-- test: not_null_silver_tasks_task_key(task_key) error
where task_key is null

-- test: not_null_silver_tasks_task_name(task_name) error
where task_name is null

-- test: relationships_silver_tasks_job_key__job_key__ref_silver_jobs_(job_key) warn
with child as (
    select job_key as from_field
    from "lake"."main"."silver_tasks"
    where job_key is not null
),

parent as (
    select job_key as to_field
    from "lake"."main"."silver_jobs"
)

select
    from_field

from child
left join parent
    on child.from_field = parent.to_field

where parent.to_field is null

-- test: unique_silver_tasks_task_key(task_key) error
select
    task_key as unique_field,
    count(*) as n_records

from "lake"."main"."silver_tasks"
where task_key is not null
group by task_key
having count(*) > 1
