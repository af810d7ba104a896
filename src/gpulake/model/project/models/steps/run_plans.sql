-- Their tasks, one for each job, as its last run asked for it. A task waits from when its job could first have begun.

with runs as (

    select * from {{ ref('runs') }}

),

spans as (

    select
        {{ surrogate_key(['cluster_id', 'job_id']) }} as job_key,
        min(launched_at) as launched_at
    from runs
    group by job_key

),

last_runs as (

    {{ newest('runs', surrogate_key(['cluster_id', 'job_id']), 'run desc') }}

)

select
    {{ surrogate_key(['last_runs.cluster_id', 'last_runs.job_id', "'job'"]) }} as task_key,
    last_runs.row_key as job_key,
    last_runs.cluster_id,
    'job' as task_name,
    last_runs.planned_instances,
    last_runs.status,
    spans.launched_at,
    last_runs.ended_at,
    last_runs.requested_cores,
    last_runs.requested_memory_bytes,
    last_runs.requested_gpus,
    last_runs.gpu_type
from last_runs
left join spans on last_runs.row_key = spans.job_key
