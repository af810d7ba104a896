-- Tasks of OpenDC workloads. They say when they were submitted and how long they run, and not when they began: they are
-- taken to begin at once. A GPU is what OpenDC calls a GPU core, unless the file says how many MHz a GPU is: then tasks
-- may have a part of one.



with tasks as (

    
    with keyed as not materialized (

        select
            *,
            cast(hash(workload, id) >> 1 as bigint) as row_key
        from "landed"."main"."bronze_opendc_tasks"

    ),

    repeated as (

        select row_key
        from keyed
        group by row_key
        having count(*) > 1

    )

    select * from keyed
    where row_key not in (select row_key from repeated)

    union all

    select * from keyed
    where row_key in (select row_key from repeated)
    qualify row_number() over (partition by row_key order by file_row desc, keyed) = 1


),

named as (

    select
        *,
        -- Names need not be unique; ids are.
        case when count(*) over (partition by workload, name) = 1 then coalesce(name, id) else id end as job_id,
        coalesce(
            case when isfinite(gpu_capacity) then gpu_capacity end
            / case when try_cast(json_extract_string(file_columns, '$."gpulake.gpu_mhz"') as double) > 0 then try_cast(json_extract_string(file_columns, '$."gpulake.gpu_mhz"') as double) end,
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
    to_timestamp(submission_time / 1000) as submitted_at,
    to_timestamp(submission_time / 1000) as launched_at,
    to_timestamp(submission_time / 1000) as started_at,
    to_timestamp((submission_time + duration) / 1000) as ended_at,
    cast(1 as bigint) as planned_instances,
    cast(cpu_count as double) as requested_cores,
    mem_capacity * 1000 as requested_memory_bytes,
    gpus as requested_gpus,
    gpus,
    cast(null as varchar) as gpu_type
from named
