-- Jobs of workloads in the Standard Workload Format, in seconds from the begin of the log. Processors are CPUs, unless
-- the file says that they are GPUs. A job that was swapped out has a line for itself, and one for each of its parts.

with jobs as (

    
    with keyed as not materialized (

        select
            *,
            cast(hash(lower(workload), job_number) >> 1 as bigint) as row_key
        from "landed"."main"."bronze_swf_jobs"

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
    qualify row_number() over (partition by row_key order by case when status in (2, 3, 4) then 1 else 0 end, run_time desc nulls last, wait_time desc nulls last, keyed) = 1


),

known as (

    select * from "landed"."main"."known_clusters"

),

measured as (

    select
        *,
        lower(workload) as cluster_id,
        case when submit_time >= 0 then coalesce(unix_start_time, 0) + case when isfinite(submit_time) then submit_time end end as submitted,
        case when wait_time >= 0 and run_time >= 0 then case when isfinite(wait_time) then wait_time end end as waited,
        case when user_number >= 0 then cast(user_number as varchar) end as user_name,
        case
            when allocated_processors > 0 then case when isfinite(allocated_processors) then allocated_processors end
            else coalesce(greatest(case when isfinite(requested_processors) then requested_processors end, 0), 0)
        end as demand
    from jobs

)

select
    measured.cluster_id,
    cast(measured.job_number as varchar) as job_id,
    cast(1 as bigint) as run,
    measured.user_name as user_id,
    measured.user_name
    || case when measured.executable_number >= 0 then '/' || measured.executable_number else '' end as group_id,
    cast(null as varchar) as workload,
    case when measured.group_number >= 0 then cast(measured.group_number as varchar) end as account_id,
    cast(null as varchar) as requested_gpu_type,
    case
        when measured.status in (1, 3) then 'succeeded'
        when measured.status in (0, 4) then 'failed'
        when measured.status = 5 then 'cancelled'
        when measured.status = 2 then 'interrupted'
        else 'unknown'
    end as status,
    to_timestamp(measured.submitted) as submitted_at,
    to_timestamp(measured.submitted) as launched_at,
    to_timestamp(measured.submitted + measured.waited) as started_at,
    to_timestamp(measured.submitted + measured.waited + case when isfinite(measured.run_time) then measured.run_time end) as ended_at,
    cast(1 as bigint) as planned_instances,
    case when measured.processors = 'CPUs' then measured.demand end as requested_cores,
    case
        when measured.requested_memory >= 0
            then cast(1024 * case when isfinite(measured.requested_memory) then measured.requested_memory end * measured.demand as bigint)
    end as requested_memory_bytes,
    case when measured.processors = 'GPUs' then measured.demand else 0 end as requested_gpus,
    case when measured.processors = 'GPUs' then measured.demand else 0 end as gpus,
    case when measured.processors = 'GPUs' and measured.demand > 0 then known.gpu_type end as gpu_type
from measured
left join known on measured.cluster_id = known.cluster_id
