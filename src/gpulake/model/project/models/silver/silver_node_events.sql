with lines as (

    select * from {{ source('landed', 'bronze_kernel_log') }}

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
        {{ instant('ts_ms / 1000') }} as happened_at,
        kind,
        subject,
        code,
        pid,
        message,
        source
    from {{ source('landed', 'bronze_node_events') }}
    union
    select
        {{ log_node('lines.file') }} as node_id,
        cast(null as varchar) as host_id,
        coalesce(
            lines.line_at,
            {{ instant(seconds_of('lines.file_at') ~ ' - (last_lines.elapsed_ms - lines.elapsed_ms) / 1000') }},
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
    from {{ ref('kubernetes_events') }}

),

-- The kernel tells of one kill in several lines, which a log in pieces has in several files.
counted as (

    select *
    from reported
    qualify
        kind != 'oom_kill'
        or source = 'kubernetes'
        or coalesce(
            {{ seconds_of('happened_at') }} - {{ seconds_of(
                'lag(happened_at) over (partition by node_id, host_id, kind, pid order by happened_at, message)'
            ) }} > {{ same_kill_seconds() }},
            true
        )

),

nodes as (

    select * from {{ ref('silver_nodes') }}

),

final as (

    select
        {{ surrogate_key([
            'counted.node_id', 'counted.host_id', 'counted.happened_at', 'counted.kind', 'counted.subject', 'counted.code', 'counted.pid',
            'counted.message', 'counted.source'
        ]) }} as event_key,
        nodes.cluster_id,
        counted.*,
        {{ event_severity('counted.kind', 'counted.code') }} as severity
    from counted
    left join nodes on counted.node_id = nodes.node_id

)

select * from final
