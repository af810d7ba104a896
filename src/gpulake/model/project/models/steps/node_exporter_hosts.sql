-- What node_exporter says of a host, a row for each page; CPU seconds become shares of the time since the page before.

-- A page that landed again, or in pieces that overlap, is one page.
with told_once as (

    select
        node_id,
        sampled_at,
        metric,
        labels,
        max(value) as value
    from {{ ref('prometheus_samples') }}
    where metric like 'node\_%' escape '\'
    group by all

),

samples as (

    select
        *,
        {{ json_text('labels', 'mode') }} as mode,
        {{ json_text('labels', 'device') }} as device
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
        and {{ extract_text('device', '^(dm-|md|loop|ram|zram|sr|[shv]d[a-z]+[0-9]|.*[0-9]p[0-9])') }} is null
    group by node_id, sampled_at

),

pages as (

    select
        node_id,
        sampled_at,
        {% for mode in ['idle', 'iowait', 'steal', 'user', 'nice', 'system', 'irq', 'softirq'] -%}
            sum(
                case when metric = 'node_cpu_seconds_total' then case when mode = '{{ mode }}' then value else 0 end end
            ) as {{ mode }}_seconds,
        {% endfor -%}
        {% for name, entry in written_names('node_exporter').items() if name != 'boot_seconds' -%}
            {{ sample_of(entry) }} as {{ name }},
        {% endfor -%}
        sum(case when metric = 'node_cpu_seconds_total' then value end) as cpu_seconds
    from samples
    group by node_id, sampled_at

),

followed as (

    select
        *,
        {% for mode in ['idle', 'iowait', 'steal', 'user', 'nice', 'system', 'irq', 'softirq'] -%}
            {{ mode }}_seconds - lag({{ mode }}_seconds) over by_time as {{ mode }}_grown,
        {% endfor -%}
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
