with collected as (

    select
        node as node_id,
        host_id,
        to_timestamp(ts_ms / 1000) as sampled_at,
        'collector' as source,
        cpu_util / 100 as cpu_busy_ratio,
        cast(cpu_user_ratio as double) as cpu_user_ratio,
        cast(cpu_system_ratio as double) as cpu_system_ratio,
        cast(cpu_iowait_ratio as double) as cpu_iowait_ratio,
        cast(cpu_steal_ratio as double) as cpu_steal_ratio,
        cast(load_1m as double) as load_1m,
        cast(load_5m as double) as load_5m,
        cast(load_15m as double) as load_15m,
        cast(processes_running as double) as processes_running,
        cast(processes_blocked as double) as processes_blocked,
        cast(memory_total_bytes as double) as memory_total_bytes,
        cast(memory_available_bytes as double) as memory_available_bytes,
        cast(swap_used_bytes as double) as swap_used_bytes,
        cast(disk_read_bytes_total as double) as disk_read_bytes_total,
        cast(disk_written_bytes_total as double) as disk_written_bytes_total,
        cast(disk_busy_seconds_total as double) as disk_busy_seconds_total,
        cast(oom_kills_total as double) as oom_kills_total,
        mem_free_mb * 1000000 as memory_free_bytes
    from "landed"."main"."bronze_host_metrics"

),

reported as (

    select * from collected
    union all by name
    select * from __dbt__cte__node_exporter_hosts

),

nodes as (

    select * from "lake"."main"."silver_nodes"

),

cleaned as (

    select
        * replace (
            case when cpu_busy_ratio between 0 and 1 then cast(cpu_busy_ratio as double) end as cpu_busy_ratio,
            case when cpu_user_ratio between 0 and 1 then cast(cpu_user_ratio as double) end as cpu_user_ratio,
            case when cpu_system_ratio between 0 and 1 then cast(cpu_system_ratio as double) end as cpu_system_ratio,
            case when cpu_iowait_ratio between 0 and 1 then cast(cpu_iowait_ratio as double) end as cpu_iowait_ratio,
            case when cpu_steal_ratio between 0 and 1 then cast(cpu_steal_ratio as double) end as cpu_steal_ratio,
            case when load_1m between 0 and 2147483631 then cast(load_1m as double) end as load_1m,
            case when load_5m between 0 and 2147483631 then cast(load_5m as double) end as load_5m,
            case when load_15m between 0 and 2147483631 then cast(load_15m as double) end as load_15m,
            case when processes_running between 0 and 2147483631 then cast(processes_running as bigint) end as processes_running,
            case when processes_blocked between 0 and 2147483631 then cast(processes_blocked as bigint) end as processes_blocked,
            case when memory_total_bytes between 0 and 1e17 then cast(memory_total_bytes as bigint) end as memory_total_bytes,
            case when memory_free_bytes between 0 and 1e17 then cast(memory_free_bytes as bigint) end as memory_free_bytes,
            case when memory_available_bytes between 0 and 1e17 then cast(memory_available_bytes as bigint) end as memory_available_bytes,
            case when swap_used_bytes between 0 and 1e17 then cast(swap_used_bytes as bigint) end as swap_used_bytes,
            case when disk_read_bytes_total between 0 and 9e18 then cast(disk_read_bytes_total as bigint) end as disk_read_bytes_total,
            case when disk_written_bytes_total between 0 and 9e18 then cast(disk_written_bytes_total as bigint) end as disk_written_bytes_total,
            case when disk_busy_seconds_total between 0 and 1e12 then cast(disk_busy_seconds_total as double) end as disk_busy_seconds_total,
            case when oom_kills_total between 0 and 9e18 then cast(oom_kills_total as bigint) end as oom_kills_total
            
        ),
        case when cpu_busy_ratio is not null and not (cpu_busy_ratio between 0 and 1) then 1 else 0 end + case when cpu_user_ratio is not null and not (cpu_user_ratio between 0 and 1) then 1 else 0 end + case when cpu_system_ratio is not null and not (cpu_system_ratio between 0 and 1) then 1 else 0 end + case when cpu_iowait_ratio is not null and not (cpu_iowait_ratio between 0 and 1) then 1 else 0 end + case when cpu_steal_ratio is not null and not (cpu_steal_ratio between 0 and 1) then 1 else 0 end + case when load_1m is not null and not (load_1m between 0 and 2147483631) then 1 else 0 end + case when load_5m is not null and not (load_5m between 0 and 2147483631) then 1 else 0 end + case when load_15m is not null and not (load_15m between 0 and 2147483631) then 1 else 0 end + case when processes_running is not null and not (processes_running between 0 and 2147483631) then 1 else 0 end + case when processes_blocked is not null and not (processes_blocked between 0 and 2147483631) then 1 else 0 end + case when memory_total_bytes is not null and not (memory_total_bytes between 0 and 1e17) then 1 else 0 end + case when memory_free_bytes is not null and not (memory_free_bytes between 0 and 1e17) then 1 else 0 end + case when memory_available_bytes is not null and not (memory_available_bytes between 0 and 1e17) then 1 else 0 end + case when swap_used_bytes is not null and not (swap_used_bytes between 0 and 1e17) then 1 else 0 end + case when disk_read_bytes_total is not null and not (disk_read_bytes_total between 0 and 9e18) then 1 else 0 end + case when disk_written_bytes_total is not null and not (disk_written_bytes_total between 0 and 9e18) then 1 else 0 end + case when disk_busy_seconds_total is not null and not (disk_busy_seconds_total between 0 and 1e12) then 1 else 0 end + case when oom_kills_total is not null and not (oom_kills_total between 0 and 9e18) then 1 else 0 end as implausible_values
    from reported

),

-- The same run may have landed by node and merged, and older runs say CPU and memory in rows of their own.
once as (

    select
        node_id,
        host_id,
        sampled_at,
        min(source) as source,
        max(cpu_busy_ratio) as cpu_busy_ratio,
        max(cpu_user_ratio) as cpu_user_ratio,
        max(cpu_system_ratio) as cpu_system_ratio,
        max(cpu_iowait_ratio) as cpu_iowait_ratio,
        max(cpu_steal_ratio) as cpu_steal_ratio,
        max(load_1m) as load_1m,
        max(load_5m) as load_5m,
        max(load_15m) as load_15m,
        max(processes_running) as processes_running,
        max(processes_blocked) as processes_blocked,
        max(memory_total_bytes) as memory_total_bytes,
        max(memory_free_bytes) as memory_free_bytes,
        max(memory_available_bytes) as memory_available_bytes,
        max(swap_used_bytes) as swap_used_bytes,
        max(disk_read_bytes_total) as disk_read_bytes_total,
        max(disk_written_bytes_total) as disk_written_bytes_total,
        max(disk_busy_seconds_total) as disk_busy_seconds_total,
        max(oom_kills_total) as oom_kills_total,
        max(implausible_values) as implausible_values
    from cleaned
    group by node_id, host_id, sampled_at

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
            window by_time as (partition by node_id, host_id order by sampled_at)
        ) as followed
    ) as usual


),

final as (

    select
        nodes.cluster_id,
        timed.node_id,
        timed.host_id,
        timed.sampled_at,
        timed.covers_seconds,
        timed.source,
        timed.cpu_busy_ratio,
        timed.cpu_user_ratio,
        timed.cpu_system_ratio,
        timed.cpu_iowait_ratio,
        timed.cpu_steal_ratio,
        timed.load_1m,
        timed.load_5m,
        timed.load_15m,
        timed.processes_running,
        timed.processes_blocked,
        timed.memory_total_bytes,
        timed.memory_free_bytes,
        timed.memory_available_bytes,
        timed.swap_used_bytes,
        timed.disk_read_bytes_total,
        timed.disk_written_bytes_total,
        timed.disk_busy_seconds_total,
        timed.oom_kills_total,
        cast(timed.implausible_values as bigint) as implausible_values
    from timed
    left join nodes on timed.node_id = nodes.node_id

)

select * from final

-- test: a_host_is_sampled_once_at_a_time() error
select node_id, host_id, sampled_at
from "lake"."main"."silver_host_samples"
group by node_id, host_id, sampled_at
having count(*) > 1

-- test: accepted_values_silver_host_samples_source__collector__node_exporter(source) error
where source not in ('collector', 'node_exporter')

-- test: not_null_silver_host_samples_cluster_id(cluster_id) error
where cluster_id is null

-- test: not_null_silver_host_samples_covers_seconds(covers_seconds) error
where covers_seconds is null

-- test: not_null_silver_host_samples_implausible_values(implausible_values) error
where implausible_values is null

-- test: not_null_silver_host_samples_node_id(node_id) error
where node_id is null

-- test: not_null_silver_host_samples_sampled_at(sampled_at) error
where sampled_at is null

-- test: not_null_silver_host_samples_source(source) error
where source is null

-- test: values_of_host_samples_can_be() error
where not (coalesce(covers_seconds, 0) >= 0 and coalesce(cpu_busy_ratio, 0) between 0 and 1 and coalesce(cpu_user_ratio, 0) between 0 and 1 and coalesce(cpu_system_ratio, 0) between 0 and 1 and coalesce(cpu_iowait_ratio, 0) between 0 and 1 and coalesce(cpu_steal_ratio, 0) between 0 and 1 and coalesce(load_1m, 0) >= 0 and coalesce(load_5m, 0) >= 0 and coalesce(load_15m, 0) >= 0 and coalesce(processes_running, 0) >= 0 and coalesce(processes_blocked, 0) >= 0 and coalesce(memory_total_bytes, 0) >= 0 and coalesce(memory_free_bytes, 0) >= 0 and coalesce(memory_available_bytes, 0) >= 0 and coalesce(swap_used_bytes, 0) >= 0 and coalesce(disk_read_bytes_total, 0) >= 0 and coalesce(disk_written_bytes_total, 0) >= 0 and coalesce(disk_busy_seconds_total, 0) >= 0 and coalesce(oom_kills_total, 0) >= 0 and coalesce(implausible_values, 0) >= 0)
