{% set identity = [
    'trace_id', 'span_id', 'module_id', 'instance_id', 'ts_enqueue', 'ts_start', 'ts_end', 'node', 'path', 'pid'
] -%}

-- The same run may have landed by node and merged.
with reported as (

    {{ newest(
        source('landed', 'bronze_invocations'), surrogate_key(identity), 'status desc nulls last, host_id nulls last'
    ) }}

),

nodes as (

    select * from {{ ref('silver_nodes') }}

),

final as (

    select
        reported.row_key as invocation_key,
        nodes.cluster_id,
        reported.node as node_id,
        reported.host_id,
        reported.trace_id,
        reported.span_id,
        reported.parent_id as parent_span_id,
        reported.module_id,
        reported.instance_id,
        coalesce(reported.proc_id, cast(reported.pid as varchar)) as process_id,
        reported.pid,
        {{ instant('reported.ts_enqueue / 1000') }} as queued_at,
        {{ instant('reported.ts_start / 1000') }} as started_at,
        {{ instant('reported.ts_end / 1000') }} as ended_at,
        coalesce(reported.queue_time_ms, reported.ts_start - reported.ts_enqueue) / 1000 as queue_seconds,
        coalesce(reported.service_time_ms, reported.ts_end - reported.ts_start) / 1000 as service_seconds,
        coalesce(reported.rt_ms, reported.ts_end - coalesce(reported.ts_enqueue, reported.ts_start)) / 1000 as response_seconds,
        reported.cpu_time_ms / 1000 as cpu_seconds,
        reported.bytes_in as received_bytes,
        reported.bytes_out as sent_bytes,
        reported.method,
        reported.path,
        reported.status as status_code,
        reported.state
    from reported
    left join nodes on reported.node = nodes.node_id

)

select * from final
