-- Older runs say ticks and leave the difference to the reader; proc_cpu and proc_rss repeat what proc_metrics says.

with reported as (

    select
        node as node_id,
        host_id,
        coalesce(proc_id, cast(pid as varchar)) as process_id,
        pid,
        ppid as parent_pid,
        comm as command,
        {{ instant('ts_ms / 1000') }} as sampled_at,
        {{ instant('started_ms / 1000') }} as started_at,
        cpu_ms,
        dt_ms,
        (cast(utime as double) + stime) * 1000 / coalesce(nullif(ticks_per_second, 0), 100) as cpu_ms_total,
        cast(rss_kb as double) * 1024 as rss_bytes,
        threads,
        read_bytes_total,
        written_bytes_total,
        owner_kind,
        owner_id
    from {{ source('landed', 'bronze_proc_metrics') }}
    -- Older runs may lack the node: the process could not be attributed.
    where node is not null

),

nodes as (

    select * from {{ ref('silver_nodes') }}

),

-- The same run may have landed by node and merged.
once as (

    select
        node_id,
        host_id,
        process_id,
        sampled_at,
        max(pid) as pid,
        max(parent_pid) as parent_pid,
        max(command) as command,
        max(started_at) as started_at,
        max(cpu_ms) as cpu_ms,
        max(dt_ms) as dt_ms,
        max(cpu_ms_total) as cpu_ms_total,
        max(case when {{ is_plausible('rss_bytes') }} then rss_bytes end) as rss_bytes,
        max(threads) as threads,
        max(read_bytes_total) as read_bytes_total,
        max(written_bytes_total) as written_bytes_total,
        max(owner_kind) as owner_kind,
        max(owner_id) as owner_id
    from reported
    group by node_id, host_id, process_id, sampled_at

),

timed as (

    {{ covering('once', ['node_id', 'host_id', 'process_id']) }}

),

counted as (

    select
        *,
        cpu_ms_total - lag(cpu_ms_total) over by_time as grown_ms,
        ({{ seconds_of('sampled_at') }} - {{ seconds_of('lag(sampled_at) over by_time') }}) * 1000 as waited_ms
    from timed
    window by_time as (partition by node_id, host_id, process_id order by sampled_at)

),

final as (

    select
        nodes.cluster_id,
        counted.node_id,
        counted.host_id,
        counted.process_id,
        counted.pid,
        counted.parent_pid,
        counted.command,
        counted.sampled_at,
        counted.covers_seconds,
        counted.started_at,
        coalesce(counted.cpu_ms, case when counted.grown_ms >= 0 then counted.grown_ms end) / 1000 as cpu_seconds,
        coalesce(counted.dt_ms, counted.waited_ms) / 1000 as interval_seconds,
        coalesce(counted.cpu_ms, case when counted.grown_ms >= 0 then counted.grown_ms end)
        / nullif(coalesce(counted.dt_ms, counted.waited_ms), 0) as cpu_cores,
        cast(counted.rss_bytes as bigint) as rss_bytes,
        counted.threads,
        counted.read_bytes_total,
        counted.written_bytes_total,
        coalesce(counted.owner_kind, 'unattributed') as owner_kind,
        counted.owner_id
    from counted
    left join nodes on counted.node_id = nodes.node_id

)

select * from final
