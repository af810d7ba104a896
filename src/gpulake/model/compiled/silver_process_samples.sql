-- Older runs say ticks and leave the difference to the reader; proc_cpu and proc_rss repeat what proc_metrics says.

with reported as (

    select
        node as node_id,
        host_id,
        coalesce(proc_id, cast(pid as varchar)) as process_id,
        pid,
        ppid as parent_pid,
        comm as command,
        to_timestamp(ts_ms / 1000) as sampled_at,
        to_timestamp(started_ms / 1000) as started_at,
        cpu_ms,
        dt_ms,
        (cast(utime as double) + stime) * 1000 / coalesce(nullif(ticks_per_second, 0), 100) as cpu_ms_total,
        cast(rss_kb as double) * 1024 as rss_bytes,
        threads,
        read_bytes_total,
        written_bytes_total,
        owner_kind,
        owner_id
    from "landed"."main"."bronze_proc_metrics"
    -- Older runs may lack the node: the process could not be attributed.
    where node is not null

),

nodes as (

    select * from "lake"."main"."silver_nodes"

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
        max(case when rss_bytes between 0 and 1e17 then rss_bytes end) as rss_bytes,
        max(threads) as threads,
        max(read_bytes_total) as read_bytes_total,
        max(written_bytes_total) as written_bytes_total,
        max(owner_kind) as owner_kind,
        max(owner_id) as owner_id
    from reported
    group by node_id, host_id, process_id, sampled_at

),

timed as (

    select
        * exclude (moment_0, moment_1, moment_2, moment_3, moment_4, moment_5, moment_6, moment_7, moment_8, moment_9, moment_10, moment_11),
        case
            when gap_seconds is null then 0
            when gap_seconds <= 3 * least(moment_1 - moment_0, moment_2 - moment_1, moment_3 - moment_2, moment_4 - moment_3, moment_5 - moment_4, moment_6 - moment_5, moment_7 - moment_6, moment_8 - moment_7, moment_9 - moment_8, moment_10 - moment_9, moment_11 - moment_10) then least(gap_seconds, 7200)
            else least(gap_seconds, 3 * list_median([moment_1 - moment_0, moment_2 - moment_1, moment_3 - moment_2, moment_4 - moment_3, moment_5 - moment_4, moment_6 - moment_5, moment_7 - moment_6, moment_8 - moment_7, moment_9 - moment_8, moment_10 - moment_9, moment_11 - moment_10]), 7200)
        end as covers_seconds
    from (
        select
            *,
            moment_6 - moment_5 as gap_seconds
        from (
            select
                *,
                (epoch_us(lag(sampled_at, 5) over by_time) / 1e6) as moment_0,
                (epoch_us(lag(sampled_at, 4) over by_time) / 1e6) as moment_1,
                (epoch_us(lag(sampled_at, 3) over by_time) / 1e6) as moment_2,
                (epoch_us(lag(sampled_at, 2) over by_time) / 1e6) as moment_3,
                (epoch_us(lag(sampled_at, 1) over by_time) / 1e6) as moment_4,
                (epoch_us(sampled_at) / 1e6) as moment_5,
                (epoch_us(lead(sampled_at, 1) over by_time) / 1e6) as moment_6,
                (epoch_us(lead(sampled_at, 2) over by_time) / 1e6) as moment_7,
                (epoch_us(lead(sampled_at, 3) over by_time) / 1e6) as moment_8,
                (epoch_us(lead(sampled_at, 4) over by_time) / 1e6) as moment_9,
                (epoch_us(lead(sampled_at, 5) over by_time) / 1e6) as moment_10,
                (epoch_us(lead(sampled_at, 6) over by_time) / 1e6) as moment_11
                
            from once
            window by_time as (partition by node_id, host_id, process_id order by sampled_at)
        ) as followed
    ) as usual


),

counted as (

    select
        *,
        cpu_ms_total - lag(cpu_ms_total) over by_time as grown_ms,
        ((epoch_us(sampled_at) / 1e6) - (epoch_us(lag(sampled_at) over by_time) / 1e6)) * 1000 as waited_ms
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

-- test: a_process_is_sampled_once_at_a_time() error
select node_id, host_id, process_id, sampled_at
from "lake"."main"."silver_process_samples"
group by node_id, host_id, process_id, sampled_at
having count(*) > 1

-- test: not_null_silver_process_samples_cluster_id(cluster_id) error
where cluster_id is null

-- test: not_null_silver_process_samples_covers_seconds(covers_seconds) error
where covers_seconds is null

-- test: not_null_silver_process_samples_node_id(node_id) error
where node_id is null

-- test: not_null_silver_process_samples_owner_kind(owner_kind) error
where owner_kind is null

-- test: not_null_silver_process_samples_pid(pid) error
where pid is null

-- test: not_null_silver_process_samples_process_id(process_id) error
where process_id is null

-- test: not_null_silver_process_samples_sampled_at(sampled_at) error
where sampled_at is null

-- test: values_of_process_samples_can_be() error
where not (coalesce(covers_seconds, 0) >= 0 and coalesce(cpu_seconds, 0) >= 0 and coalesce(interval_seconds, 0) >= 0 and coalesce(cpu_cores, 0) >= 0 and coalesce(rss_bytes, 0) >= 0 and coalesce(threads, 0) >= 0 and coalesce(read_bytes_total, 0) >= 0 and coalesce(written_bytes_total, 0) >= 0)
