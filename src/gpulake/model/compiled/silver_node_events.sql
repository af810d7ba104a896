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

reported as (

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
    union
    select
        node_id,
        cast(null as varchar) as host_id,
        happened_at,
        kind,
        subject,
        code,
        pid,
        message,
        'kubernetes' as source
    from __dbt__cte__kubernetes_events

),

-- The kernel tells of one kill in several lines, which a log in pieces has in several files.
counted as (

    select *
    from reported
    qualify
        kind != 'oom_kill'
        or source = 'kubernetes'
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
        counted.*,
        case
    when counted.kind = 'xid' and counted.code in (1, 2, 3, 4, 5, 6, 7, 9, 10, 12, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 26, 27, 28, 29, 30, 33, 34, 35, 36, 46, 48, 49, 50, 51, 52, 53, 54, 55, 56, 57, 58, 59, 61, 62, 64, 74, 79, 81, 87, 90, 91, 95, 109, 110, 111, 112, 113, 114, 115, 116, 117, 118, 119, 120, 122, 123, 124, 125, 136, 140, 143, 144, 145, 146, 147, 148, 149, 150, 151, 155, 156, 158, 166, 167, 168, 169, 170, 171, 172) then 'critical'
    when counted.kind = 'xid' and counted.code in (8, 11, 13, 14, 25, 31, 32, 37, 38, 39, 40, 41, 42, 43, 44, 45, 47, 60, 63, 65, 66, 67, 68, 69, 70, 71, 72, 73, 75, 76, 77, 80, 82, 83, 84, 85, 86, 88, 89, 92, 93, 94, 96, 97, 98, 99, 100, 101, 102, 103, 104, 105, 106, 107, 108, 121, 126, 127, 128, 129, 130, 131, 132, 133, 134, 135, 137, 138, 139, 141, 142, 152, 153, 154, 157, 159, 160, 161, 162, 163, 164, 165) then 'info'
    when counted.kind = 'sxid' and counted.code in (10003, 11001, 11004, 11009, 11013, 11018, 11019, 11020, 12001, 12002, 12020, 12022, 12024, 12025, 12026, 12027, 12028, 12030, 12031, 12032, 14017, 15001, 15006, 15009, 15010, 15012, 15013, 19047, 19048, 19054, 19056, 19058, 19060, 19061, 19063, 19064, 19066, 19067, 19069, 19070, 19084, 20034, 22003, 22011, 22012, 23001, 23002, 23003, 23004, 23005, 23006, 23007, 23008, 23009, 23010, 23011, 23012, 23013, 23014, 23015, 23016, 23017, 24004, 24005, 24006, 24007) then 'critical'
    when counted.kind = 'sxid' and counted.code in (10001, 10002, 10004, 10005, 11012, 11021, 11022, 11023, 12021, 12023, 15008, 15011, 19049, 19055, 19057, 19059, 19062, 19065, 19068, 19071, 20001, 20009, 20012, 22013, 24001, 24002, 24003) then 'info'
    when counted.kind in ('gpu_lost', 'gpu_unresponsive', 'gpu_uncorrectable', 'machine_check', 'memory_uncorrected', 'pcie_fatal', 'kernel_crash', 'hard_lockup', 'disk_lost', 'filesystem_error', 'network_card_failed', 'overheated') then 'critical'
    when counted.kind in ('xid', 'sxid', 'gpu_reset', 'pcie_uncorrected', 'soft_lockup', 'disk_errors', 'storage_unreachable', 'network_timeout', 'node_not_ready', 'node_problem') then 'warning'
    else 'info'
end as severity
    from counted
    left join nodes on counted.node_id = nodes.node_id

)

select * from final

-- test: accepted_values_silver_node_events_severity__critical__warning__info(severity) error
where severity not in ('critical', 'warning', 'info')

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

-- test: not_null_silver_node_events_severity(severity) error
where severity is null

-- test: unique_silver_node_events_event_key(event_key) error
select
    event_key as unique_field,
    count(*) as n_records

from "lake"."main"."silver_node_events"
where event_key is not null
group by event_key
having count(*) > 1
