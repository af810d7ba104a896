-- Jobs of workloads in the Standard Workload Format, in seconds from the begin of the log. Processors are CPUs, unless
-- the file says that they are GPUs. A job that was swapped out has a line for itself, and one for each of its parts.

with jobs as (

    {{ newest(
        source('landed', 'bronze_swf_jobs'),
        surrogate_key(['lower(workload)', 'job_number']),
        'case when status in (2, 3, 4) then 1 else 0 end, run_time desc nulls last, wait_time desc nulls last'
    ) }}

),

known as (

    select * from {{ source('landed', 'known_clusters') }}

),

measured as (

    select
        *,
        lower(workload) as cluster_id,
        case when submit_time >= 0 then coalesce(unix_start_time, 0) + {{ finite('submit_time') }} end as submitted,
        case when wait_time >= 0 and run_time >= 0 then {{ finite('wait_time') }} end as waited,
        case when user_number >= 0 then cast(user_number as varchar) end as user_name,
        case
            when allocated_processors > 0 then {{ finite('allocated_processors') }}
            else coalesce(greatest({{ finite('requested_processors') }}, 0), 0)
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
    {{ instant('measured.submitted') }} as submitted_at,
    {{ instant('measured.submitted') }} as launched_at,
    {{ instant('measured.submitted + measured.waited') }} as started_at,
    {{ instant('measured.submitted + measured.waited + ' ~ finite('measured.run_time')) }} as ended_at,
    cast(1 as bigint) as planned_instances,
    case when measured.processors = 'CPUs' then measured.demand end as requested_cores,
    case
        when measured.requested_memory >= 0
            then cast(1024 * {{ finite('measured.requested_memory') }} * measured.demand as bigint)
    end as requested_memory_bytes,
    case when measured.processors = 'GPUs' then measured.demand else 0 end as requested_gpus,
    case when measured.processors = 'GPUs' then measured.demand else 0 end as gpus,
    case when measured.processors = 'GPUs' and measured.demand > 0 then known.gpu_type end as gpu_type
from measured
left join known on measured.cluster_id = known.cluster_id
