-- Tasks of OpenDC workloads. They say when they were submitted and how long they run, and not when they began: they are
-- taken to begin at once. A GPU is what OpenDC calls a GPU core, unless the file says how many MHz a GPU is: then tasks
-- may have a part of one.

{% set gpu_mhz = try_number(json_text('file_columns', 'gpulake.gpu_mhz')) %}

with tasks as (

    {{ newest(
        source('landed', 'bronze_opendc_tasks'),
        surrogate_key(['workload', 'id']),
        'file_row desc'
    ) }}

),

named as (

    select
        *,
        -- Names need not be unique; ids are.
        case when count(*) over (partition by workload, name) = 1 then coalesce(name, id) else id end as job_id,
        coalesce(
            {{ finite('gpu_capacity') }}
            / case when {{ gpu_mhz }} > 0 then {{ gpu_mhz }} end,
            gpu_count,
            0
        ) as gpus
    from tasks

)

select
    lower(workload) as cluster_id,
    job_id,
    cast(1 as bigint) as run,
    cast(null as varchar) as user_id,
    cast(null as varchar) as group_id,
    cast(null as varchar) as workload,
    cast(null as varchar) as account_id,
    cast(null as varchar) as requested_gpu_type,
    'succeeded' as status,
    {{ instant('submission_time / 1000') }} as submitted_at,
    {{ instant('submission_time / 1000') }} as launched_at,
    {{ instant('submission_time / 1000') }} as started_at,
    {{ instant('(submission_time + duration) / 1000') }} as ended_at,
    cast(1 as bigint) as planned_instances,
    cast(cpu_count as double) as requested_cores,
    mem_capacity * 1000 as requested_memory_bytes,
    gpus as requested_gpus,
    gpus,
    cast(null as varchar) as gpu_type
from named
