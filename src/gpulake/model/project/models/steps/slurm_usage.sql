-- What runs of Slurm used on each node: as jobstats summed it up, or else what the busiest of their steps used.

with nodes as (

    select
        *,
        {{ json_member(json_member('js1', "'nodes'"), 'node') }} as summary
    from {{ ref('slurm_nodes') }}
    where started_at is not null

),

steps as (

    select * from {{ ref('slurm_rows') }}
    where step is not null and gpu_util_ratio is not null

),

runs as (

    select distinct
        cluster_id,
        job_id,
        run,
        started_at,
        ended_at
    from nodes

),

busiest as (

    select
        runs.cluster_id,
        runs.job_id,
        runs.run,
        max({{ finite('steps.gpu_util_ratio') }}) as gpu_util_ratio
    from runs
    inner join steps
        on
            runs.cluster_id = steps.cluster_id
            and runs.job_id = steps.own_job_id
            and (steps.started_at is null or runs.started_at <= steps.started_at)
            and (steps.started_at is null or runs.ended_at is null or runs.ended_at >= steps.started_at)
    group by runs.cluster_id, runs.job_id, runs.run

),

used as (

    select
        nodes.worker_key,
        {{ json_number(json_member('nodes.summary', "'total_time'")) }}
        / nullif({{ json_number(json_member('nodes.js1', "'total_time'")) }}, 0) as used_cores,
        coalesce(
            {{ json_sum(json_member('nodes.summary', "'gpu_utilization'")) }} / 100,
            case when busiest.gpu_util_ratio > 1 then 1 else busiest.gpu_util_ratio end * nodes.gpus
        ) as used_gpus,
        {{ json_number(json_member('nodes.summary', "'used_memory'")) }} as memory_bytes,
        {{ json_sum(json_member('nodes.summary', "'gpu_used_memory'")) }} as gpu_memory_bytes
    from nodes
    left join busiest
        on nodes.cluster_id = busiest.cluster_id and nodes.job_id = busiest.job_id and nodes.run = busiest.run

)

select
    worker_key,
    used_cores,
    used_gpus,
    cast(null as bigint) as mean_memory_bytes,
    cast(memory_bytes as bigint) as peak_memory_bytes,
    cast(null as bigint) as mean_gpu_memory_bytes,
    cast(gpu_memory_bytes as bigint) as peak_gpu_memory_bytes,
    cast(null as double) as network_read_bytes,
    cast(null as double) as network_written_bytes
from used
where coalesce(used_cores, used_gpus, memory_bytes, gpu_memory_bytes) is not null
