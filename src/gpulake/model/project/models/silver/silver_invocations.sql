{% set identity = [
    'trace_id', 'span_id', 'module_id', 'instance_id', 'ts_enqueue', 'ts_start', 'ts_end', 'node', 'path', 'pid'
] -%}

-- The same run may have landed by node and merged.
with spans as (

    {{ newest(
        source('landed', 'bronze_invocations'), surrogate_key(identity), 'status desc nulls last, host_id nulls last'
    ) }}

),

nodes as (

    select * from {{ ref('silver_nodes') }}

),

final as (

    select
        spans.row_key as invocation_key,
        nodes.cluster_id,
        spans.node as node_id,
        spans.host_id,
        spans.trace_id,
        spans.span_id,
        spans.parent_id as parent_span_id,
        spans.module_id,
        spans.instance_id,
        coalesce(spans.proc_id, cast(spans.pid as varchar)) as process_id,
        spans.pid,
        {{ instant('spans.ts_enqueue / 1000') }} as queued_at,
        {{ instant('spans.ts_start / 1000') }} as started_at,
        {{ instant('spans.ts_end / 1000') }} as ended_at,
        coalesce(spans.queue_time_ms, spans.ts_start - spans.ts_enqueue) / 1000 as queue_seconds,
        coalesce(spans.service_time_ms, spans.ts_end - spans.ts_start) / 1000 as service_seconds,
        coalesce(spans.rt_ms, spans.ts_end - coalesce(spans.ts_enqueue, spans.ts_start)) / 1000 as response_seconds,
        spans.cpu_time_ms / 1000 as cpu_seconds,
        spans.bytes_in as received_bytes,
        spans.bytes_out as sent_bytes,
        spans.method,
        spans.path,
        spans.status as status_code,
        spans.state
    from spans
    left join nodes on spans.node = nodes.node_id

)

select * from final
