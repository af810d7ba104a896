-- Tasks of PAI as planned. A task has one row, though it may stand in several files.

with tasks as (

    
    with keyed as not materialized (

        select
            *,
            cast(hash(job_name, task_name) >> 1 as bigint) as row_key
        from "landed"."main"."bronze_task_table"

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
    qualify row_number() over (partition by row_key order by end_time desc nulls last, start_time desc nulls last, case case status
        when 'Terminated' then 'succeeded'
        when 'Failed' then 'failed'
        when 'Interrupted' then 'interrupted'
        when 'Running' then 'running'
        when 'Waiting' then 'waiting'
        else 'unknown'
    end when 'succeeded' then 1 when 'failed' then 2 when 'node_fail' then 3 when 'timeout' then 4 when 'interrupted' then 5 when 'cancelled' then 6 when 'running' then 7 when 'waiting' then 8 when 'unknown' then 9 end, keyed) = 1


)

select
    row_key as task_key,
    cast(hash(job_name) >> 1 as bigint) as job_key,
    case when job_name like 'synth-%' then 'synth' else 'pai' end as cluster_id,
    task_name,
    cast(case when isfinite(inst_num) then inst_num end as bigint) as planned_instances,
    case status
        when 'Terminated' then 'succeeded'
        when 'Failed' then 'failed'
        when 'Interrupted' then 'interrupted'
        when 'Running' then 'running'
        when 'Waiting' then 'waiting'
        else 'unknown'
    end as status,
    to_timestamp(case when isfinite(nullif(start_time, 0)) then nullif(start_time, 0) end) as launched_at,
    to_timestamp(case when isfinite(nullif(end_time, 0)) then nullif(end_time, 0) end) as ended_at,
    case when isfinite(plan_cpu) then plan_cpu end / 100 as requested_cores,
    cast(case when isfinite(plan_mem) then plan_mem end * 1073741824 as bigint) as requested_memory_bytes,
    coalesce(case when isfinite(plan_gpu) then plan_gpu end / 100, 0) as requested_gpus,
    nullif(gpu_type, 'CPU') as gpu_type
from tasks
