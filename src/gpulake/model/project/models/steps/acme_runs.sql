-- Jobs of AcmeTrace. Kalos counts `duration` and `gpu_time` from the submission: only begins and ends are used.

with seren as (

    {{ newest(
        source('landed', 'bronze_acme_seren_jobs'),
        surrogate_key(['job_id']),
        'end_time desc nulls last, start_time desc nulls last, ' ~ status_rank(slurm_status('state'))
    ) }}

),

kalos as (

    {{ newest(
        source('landed', 'bronze_acme_kalos_jobs'),
        surrogate_key(['job_id']),
        'coalesce(end_time, fail_time, stop_time) desc nulls last, start_time desc nulls last, '
        ~ status_rank(slurm_status('state'))
    ) }}

),

known as (

    select * from {{ source('landed', 'known_clusters') }}

),

jobs as (

    select
        'seren' as cluster_id,
        job_id,
        "user" as user_id,
        type as workload,
        state,
        submit_time as submitted_at,
        start_time as started_at,
        end_time as ended_at,
        {{ at_least_one('node_num') }} as nodes,
        {{ finite('cpu_num') }} as cores,
        cast(null as bigint) as memory_bytes,
        coalesce({{ finite('gpu_num') }}, 0) as gpus
    from seren

    union all

    select
        'kalos' as cluster_id,
        job_id,
        "user" as user_id,
        type as workload,
        state,
        submit_time as submitted_at,
        start_time as started_at,
        coalesce(end_time, fail_time, stop_time) as ended_at,
        {{ at_least_one('node_num') }} as nodes,
        {{ finite('cpu_num') }} as cores,
        cast({{ finite('"mem_per_pod_GB"') }} * 1000000000 as bigint) as memory_bytes,
        coalesce({{ finite('gpu_num') }}, 0) as gpus
    from kalos

)

select
    jobs.cluster_id,
    jobs.job_id,
    cast(1 as bigint) as run,
    jobs.user_id,
    jobs.user_id as group_id,
    jobs.workload,
    cast(null as varchar) as account_id,
    cast(null as varchar) as requested_gpu_type,
    {{ slurm_status('jobs.state') }} as status,
    jobs.submitted_at,
    jobs.submitted_at as launched_at,
    jobs.started_at,
    jobs.ended_at,
    jobs.nodes as planned_instances,
    jobs.cores / jobs.nodes as requested_cores,
    jobs.memory_bytes as requested_memory_bytes,
    jobs.gpus / jobs.nodes as requested_gpus,
    jobs.gpus,
    case when jobs.gpus > 0 then known.gpu_type end as gpu_type
from jobs
left join known on jobs.cluster_id = known.cluster_id
