-- The same run may have landed by node and merged.
with reported as (

    
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
        to_timestamp(reported.ts_enqueue / 1000) as queued_at,
        to_timestamp(reported.ts_start / 1000) as started_at,
        to_timestamp(reported.ts_end / 1000) as ended_at,
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
