with reported as (

    select
        node as node_id,
        host_id,
        gpu_uuid as gpu_id,
        coalesce(proc_id, cast(pid as varchar)) as process_id,
        pid,
        comm as command,
        {{ instant('ts_ms / 1000') }} as sampled_at,
        memory_used_bytes,
        sm_busy_ratio,
        memory_busy_ratio,
        owner_kind,
        owner_id
    from {{ source('landed', 'bronze_gpu_processes') }}

),

nodes as (

    select * from {{ ref('silver_nodes') }}

),

-- The same run may have landed by node and merged.
once as (

    select
        node_id,
        host_id,
        gpu_id,
        process_id,
        sampled_at,
        max(pid) as pid,
        max(command) as command,
        max(case when {{ is_plausible('memory_used_bytes') }} then memory_used_bytes end) as memory_used_bytes,
        max(case when {{ is_plausible('sm_busy_ratio') }} then sm_busy_ratio end) as sm_busy_ratio,
        max(case when {{ is_plausible('memory_busy_ratio') }} then memory_busy_ratio end) as memory_busy_ratio,
        max(owner_kind) as owner_kind,
        max(owner_id) as owner_id
    from reported
    group by node_id, host_id, gpu_id, process_id, sampled_at

),

timed as (

    {{ covering('once', ['node_id', 'host_id', 'gpu_id', 'process_id']) }}

),

final as (

    select
        nodes.cluster_id,
        timed.node_id,
        timed.host_id,
        timed.gpu_id,
        timed.process_id,
        timed.pid,
        timed.command,
        timed.sampled_at,
        timed.covers_seconds,
        timed.memory_used_bytes,
        timed.sm_busy_ratio,
        timed.memory_busy_ratio,
        coalesce(timed.owner_kind, 'unattributed') as owner_kind,
        timed.owner_id
    from timed
    left join nodes on timed.node_id = nodes.node_id

)

select * from final
