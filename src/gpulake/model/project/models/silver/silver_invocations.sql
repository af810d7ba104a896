{% set identity = [
    'trace_id', 'span_id', 'module_id', 'instance_id', 'ts_enqueue', 'ts_start', 'ts_end', 'node', 'path', 'pid'
] -%}

-- The same run may have landed by node and merged.
with told as (

    {{ newest(
        source('landed', 'bronze_invocations'), surrogate_key(identity), 'status desc nulls last, host_id nulls last'
    ) }}

),

nodes as (

    select * from {{ ref('silver_nodes') }}

),

final as (

    select
        told.row_key as invocation_key,
        nodes.cluster_id,
        told.node as node_id,
        told.host_id,
        told.trace_id,
        told.span_id,
        told.parent_id as parent_span_id,
        told.module_id,
        told.instance_id,
        coalesce(told.proc_id, cast(told.pid as varchar)) as process_id,
        told.pid,
        {{ instant('told.ts_enqueue / 1000') }} as queued_at,
        {{ instant('told.ts_start / 1000') }} as started_at,
        {{ instant('told.ts_end / 1000') }} as ended_at,
        coalesce(told.queue_time_ms, told.ts_start - told.ts_enqueue) / 1000 as queue_seconds,
        coalesce(told.service_time_ms, told.ts_end - told.ts_start) / 1000 as service_seconds,
        coalesce(told.rt_ms, told.ts_end - coalesce(told.ts_enqueue, told.ts_start)) / 1000 as response_seconds,
        told.cpu_time_ms / 1000 as cpu_seconds,
        told.bytes_in as received_bytes,
        told.bytes_out as sent_bytes,
        told.method,
        told.path,
        told.status as status_code,
        told.state
    from told
    left join nodes on told.node = nodes.node_id

)

select * from final
