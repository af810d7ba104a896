with lines as (

    select * from "landed"."main"."bronze_kernel_log"

),

-- Lines that count from boot end when their file was last written.
last_lines as (

    select
        file,
        folder,
        file_at,
        max(elapsed_ms) as elapsed_ms
    from lines
    group by file, folder, file_at

),

told as (

    select distinct
        node as node_id,
        host_id,
        to_timestamp(ts_ms / 1000) as happened_at,
        kind,
        subject,
        code,
        pid,
        message,
        source
    from "landed"."main"."bronze_node_events"
    union
    select
        nullif(regexp_extract(lines.file, '^(.+?)([._-](dmesg|kmsg|kern|kernel))?(\.[A-Za-z]+)?$', 1), '') as node_id,
        cast(null as varchar) as host_id,
        coalesce(
            lines.line_at,
            to_timestamp((epoch_us(lines.file_at) / 1e6) - (last_lines.elapsed_ms - lines.elapsed_ms) / 1000),
            lines.file_at
        ) as happened_at,
        lines.kind,
        lines.subject,
        lines.code,
        lines.pid,
        lines.message,
        'kernel' as source
    from lines
    inner join last_lines
        on lines.file = last_lines.file and lines.folder = last_lines.folder and lines.file_at = last_lines.file_at
    where lines.kind is not null

),

-- The kernel tells of one kill in several lines, which a log in pieces has in several files.
counted as (

    select *
    from told
    qualify
        kind != 'oom_kill'
        or coalesce(
            (epoch_us(happened_at) / 1e6) - (epoch_us(lag(happened_at) over (partition by node_id, host_id, kind, pid order by happened_at, message)) / 1e6) > 10,
            true
        )

),

nodes as (

    select * from "lake"."main"."silver_nodes"

),

final as (

    select
        cast(hash(counted.node_id, counted.host_id, counted.happened_at, counted.kind, counted.subject, counted.code, counted.pid, counted.message, counted.source) >> 1 as bigint) as event_key,
        nodes.cluster_id,
        counted.*
    from counted
    left join nodes on counted.node_id = nodes.node_id

)

select * from final

-- test: not_null_silver_node_events_cluster_id(cluster_id) error
where cluster_id is null

-- test: not_null_silver_node_events_event_key(event_key) error
where event_key is null

-- test: not_null_silver_node_events_happened_at(happened_at) error
where happened_at is null

-- test: not_null_silver_node_events_kind(kind) error
where kind is null

-- test: not_null_silver_node_events_node_id(node_id) error
where node_id is null

-- test: unique_silver_node_events_event_key(event_key) error
select
    event_key as unique_field,
    count(*) as n_records

from "lake"."main"."silver_node_events"
where event_key is not null
group by event_key
having count(*) > 1
