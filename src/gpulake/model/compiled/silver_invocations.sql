-- The same run may have landed by node and merged.
with spans as (

    
    with keyed as not materialized (

        select
            *,
            cast(hash(trace_id, span_id, module_id, instance_id, ts_enqueue, ts_start, ts_end, node, path, pid) >> 1 as bigint) as row_key
        from "landed"."main"."bronze_invocations"

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
    qualify row_number() over (partition by row_key order by status desc nulls last, host_id nulls last, keyed) = 1


),

nodes as (

    select * from "lake"."main"."silver_nodes"

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
        to_timestamp(spans.ts_enqueue / 1000) as queued_at,
        to_timestamp(spans.ts_start / 1000) as started_at,
        to_timestamp(spans.ts_end / 1000) as ended_at,
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

-- test: not_null_silver_invocations_cluster_id(cluster_id) error
where cluster_id is null

-- test: not_null_silver_invocations_ended_at(ended_at) error
where ended_at is null

-- test: not_null_silver_invocations_invocation_key(invocation_key) error
where invocation_key is null

-- test: not_null_silver_invocations_node_id(node_id) error
where node_id is null

-- test: unique_silver_invocations_invocation_key(invocation_key) error
select
    invocation_key as unique_field,
    count(*) as n_records

from "lake"."main"."silver_invocations"
where invocation_key is not null
group by invocation_key
having count(*) > 1

-- test: values_of_invocations_can_be() error
where not (coalesce(cpu_seconds, 0) >= 0 and coalesce(received_bytes, 0) >= 0 and coalesce(sent_bytes, 0) >= 0)
