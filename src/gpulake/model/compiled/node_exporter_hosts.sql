-- What node_exporter says of a host, a row for each page; CPU seconds become shares of the time since the page before.

-- A page that landed again, or in pieces that overlap, is one page.
with told_once as (

    select
        node_id,
        sampled_at,
        metric,
        labels,
        max(value) as value
    from __dbt__cte__prometheus_samples
    where metric like 'node\_%' escape '\'
    group by all

),

samples as (

    select
        *,
        json_extract_string(labels, '$."mode"') as mode,
        json_extract_string(labels, '$."device"') as device
    from told_once

),

-- Partitions, and devices that others are made of, would count twice.
disks as (

    select
        node_id,
        sampled_at,
        sum(case when metric = 'node_disk_read_bytes_total' then value end) as disk_read_bytes_total,
        sum(case when metric = 'node_disk_written_bytes_total' then value end) as disk_written_bytes_total,
        sum(case when metric = 'node_disk_io_time_seconds_total' then value end) as disk_busy_seconds_total
    from samples
    where
        metric in ('node_disk_read_bytes_total', 'node_disk_written_bytes_total', 'node_disk_io_time_seconds_total')
        and nullif(regexp_extract(device, '^(dm-|md|loop|ram|zram|sr|[shv]d[a-z]+[0-9]|.*[0-9]p[0-9])', 1), '') is null
    group by node_id, sampled_at

),

pages as (

    select
        node_id,
        sampled_at,
        sum(
                case when metric = 'node_cpu_seconds_total' then case when mode = 'idle' then value else 0 end end
            ) as idle_seconds,
        sum(
                case when metric = 'node_cpu_seconds_total' then case when mode = 'iowait' then value else 0 end end
            ) as iowait_seconds,
        sum(
                case when metric = 'node_cpu_seconds_total' then case when mode = 'steal' then value else 0 end end
            ) as steal_seconds,
        sum(
                case when metric = 'node_cpu_seconds_total' then case when mode = 'user' then value else 0 end end
            ) as user_seconds,
        sum(
                case when metric = 'node_cpu_seconds_total' then case when mode = 'nice' then value else 0 end end
            ) as nice_seconds,
        sum(
                case when metric = 'node_cpu_seconds_total' then case when mode = 'system' then value else 0 end end
            ) as system_seconds,
        sum(
                case when metric = 'node_cpu_seconds_total' then case when mode = 'irq' then value else 0 end end
            ) as irq_seconds,
        sum(
                case when metric = 'node_cpu_seconds_total' then case when mode = 'softirq' then value else 0 end end
            ) as softirq_seconds,
        max(case when metric in ('node_load1') then value * 1 end) as load_1m,
        max(case when metric in ('node_load5') then value * 1 end) as load_5m,
        max(case when metric in ('node_load15') then value * 1 end) as load_15m,
        max(case when metric in ('node_procs_running') then value * 1 end) as processes_running,
        max(case when metric in ('node_procs_blocked') then value * 1 end) as processes_blocked,
        max(case when metric in ('node_memory_MemTotal_bytes') then value * 1 end) as memory_total_bytes,
        max(case when metric in ('node_memory_MemFree_bytes') then value * 1 end) as memory_free_bytes,
        max(case when metric in ('node_memory_MemAvailable_bytes') then value * 1 end) as memory_available_bytes,
        max(case when metric in ('node_vmstat_oom_kill') then value * 1 end) as oom_kills_total,
        max(case when metric in ('node_memory_SwapTotal_bytes') then value * 1 end) as swap_total_bytes,
        max(case when metric in ('node_memory_SwapFree_bytes') then value * 1 end) as swap_free_bytes,
        sum(case when metric = 'node_cpu_seconds_total' then value end) as cpu_seconds
    from samples
    group by node_id, sampled_at

),

followed as (

    select
        *,
        idle_seconds - lag(idle_seconds) over by_time as idle_grown,
        iowait_seconds - lag(iowait_seconds) over by_time as iowait_grown,
        steal_seconds - lag(steal_seconds) over by_time as steal_grown,
        user_seconds - lag(user_seconds) over by_time as user_grown,
        nice_seconds - lag(nice_seconds) over by_time as nice_grown,
        system_seconds - lag(system_seconds) over by_time as system_grown,
        irq_seconds - lag(irq_seconds) over by_time as irq_grown,
        softirq_seconds - lag(softirq_seconds) over by_time as softirq_grown,
        cpu_seconds - lag(cpu_seconds) over by_time as cpu_grown
    from pages
    window by_time as (partition by node_id order by sampled_at)

),

whole as (

    select
        followed.*,
        disks.disk_read_bytes_total,
        disks.disk_written_bytes_total,
        disks.disk_busy_seconds_total
    from followed
    left join disks on followed.node_id = disks.node_id and followed.sampled_at = disks.sampled_at

)

select
    node_id,
    cast(null as varchar) as host_id,
    sampled_at,
    'node_exporter' as source,
    case when cpu_grown > 0 then 1 - idle_grown / cpu_grown end as cpu_busy_ratio,
    case when cpu_grown > 0 then (user_grown + nice_grown) / cpu_grown end as cpu_user_ratio,
    case when cpu_grown > 0 then (system_grown + irq_grown + softirq_grown) / cpu_grown end as cpu_system_ratio,
    case when cpu_grown > 0 then iowait_grown / cpu_grown end as cpu_iowait_ratio,
    case when cpu_grown > 0 then steal_grown / cpu_grown end as cpu_steal_ratio,
    load_1m,
    load_5m,
    load_15m,
    processes_running,
    processes_blocked,
    memory_total_bytes,
    memory_free_bytes,
    memory_available_bytes,
    swap_total_bytes - swap_free_bytes as swap_used_bytes,
    disk_read_bytes_total,
    disk_written_bytes_total,
    disk_busy_seconds_total,
    oom_kills_total
from whole
where cpu_seconds is not null or load_1m is not null or memory_total_bytes is not null
