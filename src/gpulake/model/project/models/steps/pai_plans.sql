-- Tasks of PAI as planned. A task has one row, though it may stand in several files.

with tasks as (

    {{ newest(
        source('landed', 'bronze_task_table'),
        surrogate_key(['job_name', 'task_name']),
        'end_time desc nulls last, start_time desc nulls last, ' ~ status_rank(pai_status('status'))
    ) }}

)

select
    row_key as task_key,
    {{ surrogate_key(['job_name']) }} as job_key,
    {{ pai_cluster('job_name') }} as cluster_id,
    task_name,
    cast({{ finite('inst_num') }} as bigint) as planned_instances,
    {{ pai_status('status') }} as status,
    {{ pai_instant('start_time') }} as launched_at,
    {{ pai_instant('end_time') }} as ended_at,
    {{ finite('plan_cpu') }} / 100 as requested_cores,
    {{ gibibytes('plan_mem') }} as requested_memory_bytes,
    coalesce({{ finite('plan_gpu') }} / 100, 0) as requested_gpus,
    nullif(gpu_type, 'CPU') as gpu_type
from tasks
