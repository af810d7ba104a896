{% set measures = [
    ['cpu_busy_ratio', 'double'], ['cpu_user_ratio', 'double'], ['cpu_system_ratio', 'double'],
    ['cpu_iowait_ratio', 'double'], ['cpu_steal_ratio', 'double'], ['load_1m', 'double'], ['load_5m', 'double'],
    ['load_15m', 'double'], ['processes_running', 'bigint'], ['processes_blocked', 'bigint'],
    ['memory_total_bytes', 'bigint'], ['memory_free_bytes', 'bigint'], ['memory_available_bytes', 'bigint'],
    ['swap_used_bytes', 'bigint'], ['disk_read_bytes_total', 'bigint'], ['disk_written_bytes_total', 'bigint'],
    ['disk_busy_seconds_total', 'double'], ['oom_kills_total', 'bigint']
] -%}

with collected as (

    select
        node as node_id,
        host_id,
        {{ instant('ts_ms / 1000') }} as sampled_at,
        'collector' as source,
        cpu_util / 100 as cpu_busy_ratio,
        {% for name, type in measures if name not in ('cpu_busy_ratio', 'memory_free_bytes') -%}
            cast({{ name }} as double) as {{ name }},
        {% endfor -%}
        mem_free_mb * 1000000 as memory_free_bytes
    from {{ source('landed', 'bronze_host_metrics') }}

),

reported as (

    select * from collected
    union all by name
    select * from {{ ref('node_exporter_hosts') }}

),

nodes as (

    select * from {{ ref('silver_nodes') }}

),

cleaned as (

    select
        * replace (
            {% for name, type in measures -%}
                case when {{ is_plausible(name) }} then cast({{ name }} as {{ type }}) end as {{ name }}
                {{- ',' if not loop.last }}
            {% endfor %}
        ),
        {{ implausible_values(measures | map('first') | list) }} as implausible_values
    from reported

),

-- The same run may have landed by node and merged, and older runs say CPU and memory in rows of their own.
once as (

    select
        node_id,
        host_id,
        sampled_at,
        min(source) as source,
        {% for name, type in measures -%}
            max({{ name }}) as {{ name }},
        {% endfor -%}
        max(implausible_values) as implausible_values
    from cleaned
    group by node_id, host_id, sampled_at

),

timed as (

    {{ covering('once', ['node_id', 'host_id']) }}

),

final as (

    select
        nodes.cluster_id,
        timed.node_id,
        timed.host_id,
        timed.sampled_at,
        timed.covers_seconds,
        timed.source,
        {% for name, type in measures -%}
            timed.{{ name }},
        {% endfor -%}
        cast(timed.implausible_values as bigint) as implausible_values
    from timed
    left join nodes on timed.node_id = nodes.node_id

)

select * from final
