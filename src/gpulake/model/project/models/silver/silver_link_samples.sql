{% set totals = [
    'rx_bytes_total', 'tx_bytes_total', 'rx_packets_total', 'tx_packets_total', 'rx_errors_total', 'tx_errors_total',
    'rx_dropped_total', 'tx_dropped_total', 'carrier_changes_total'
] -%}
{% set exported = {
    'rx_bytes_total': 'node_network_receive_bytes_total', 'tx_bytes_total': 'node_network_transmit_bytes_total',
    'rx_packets_total': 'node_network_receive_packets_total', 'tx_packets_total': 'node_network_transmit_packets_total',
    'rx_errors_total': 'node_network_receive_errs_total', 'tx_errors_total': 'node_network_transmit_errs_total',
    'rx_dropped_total': 'node_network_receive_drop_total', 'tx_dropped_total': 'node_network_transmit_drop_total',
    'carrier_changes_total': 'node_network_carrier_changes_total'
} -%}
{% set infiniband = {
    'rx_bytes_total': 'node_infiniband_port_data_received_bytes_total',
    'tx_bytes_total': 'node_infiniband_port_data_transmitted_bytes_total',
    'link_downed_total': 'node_infiniband_link_downed_total', 'symbol_errors_total': 'node_infiniband_symbol_error_total'
} -%}
{% set measures = ['rx_bytes_per_second', 'tx_bytes_per_second'] + totals + [
    'link_downed_total', 'symbol_errors_total', 'speed_bits_per_second'
] -%}

with collected as (

    select
        node as node_id,
        host_id,
        coalesce(iface, {{ extract_text('link', '([^.]+)$') }}, link) as interface,
        {{ instant('ts_ms / 1000') }} as sampled_at,
        'collector' as source,
        "rx_Bps" as rx_bytes_per_second,
        "tx_Bps" as tx_bytes_per_second,
        {% for name in totals + ['link_downed_total', 'symbol_errors_total', 'speed_bits_per_second'] -%}
            cast({{ name }} as double) as {{ name }},
        {% endfor -%}
        is_up,
        rtt_seconds
    from {{ source('landed', 'bronze_link_metrics') }}

),

pages as (

    select
        node_id,
        {{ json_text('labels', 'device') }} || coalesce('/' || {{ json_text('labels', 'port') }}, '') as interface,
        sampled_at,
        {% for name in totals + ['link_downed_total', 'symbol_errors_total'] -%}
            max(
                case
                    when
                        metric = '{{ exported.get(name, '') }}'
                        or metric = '{{ infiniband.get(name, '') }}'
                        then value
                end
            ) as {{ name }},
        {% endfor -%}
        max(
            case when metric in ('node_network_speed_bytes', 'node_infiniband_rate_bytes_per_second') then value end
        ) * 8 as speed_bits_per_second,
        -- 4 is InfiniBand's state ACTIVE.
        max(
            case
                when metric = 'node_network_up' then value
                when metric = 'node_infiniband_state_id' then case when value = 4 then 1 else 0 end
            end
        ) > 0 as is_up
    from {{ ref('prometheus_samples') }}
    where metric like 'node\_network\_%' escape '\' or metric like 'node\_infiniband\_%' escape '\'
    group by all

),

followed as (

    select
        *,
        {% for side in ['rx', 'tx'] -%}
            lag({{ side }}_bytes_total) over by_time as {{ side }}_bytes_before,
        {% endfor -%}
        {{ seconds_of('sampled_at') }} - {{ seconds_of('lag(sampled_at) over by_time') }} as interval_seconds
    from pages
    where interface is not null
    window by_time as (partition by node_id, interface order by sampled_at)

),

exporter as (

    select
        node_id,
        cast(null as varchar) as host_id,
        interface,
        sampled_at,
        'node_exporter' as source,
        {% for side in ['rx', 'tx'] -%}
            {{ rate(side ~ '_bytes_total', side ~ '_bytes_before', 'interval_seconds') }}
                as {{ side }}_bytes_per_second,
        {% endfor -%}
        {% for name in totals -%}
            {{ name }},
        {% endfor -%}
        link_downed_total,
        symbol_errors_total,
        speed_bits_per_second,
        is_up,
        cast(null as double) as rtt_seconds
    from followed

),

reported as (

    select * from collected
    union all by name
    select * from exporter

),

nodes as (

    select * from {{ ref('silver_nodes') }}

),

cleaned as (

    select
        * replace (
            {% for name in measures -%}
                case when {{ is_plausible(name) }} then {{ name }} end as {{ name }}{{ ',' if not loop.last }}
            {% endfor %}
        ),
        {{ implausible_values(measures) }} as implausible_values
    from reported

),

once as (

    select
        node_id,
        host_id,
        interface,
        sampled_at,
        min(source) as source,
        {% for name in measures -%}
            max({{ name }}) as {{ name }},
        {% endfor -%}
        bool_or(is_up) as is_up,
        max(rtt_seconds) as rtt_seconds,
        max(implausible_values) as implausible_values
    from cleaned
    group by node_id, host_id, interface, sampled_at

),

timed as (

    {{ covering('once', ['node_id', 'host_id', 'interface']) }}

),

final as (

    select
        nodes.cluster_id,
        timed.node_id,
        timed.host_id,
        timed.interface,
        timed.sampled_at,
        timed.covers_seconds,
        timed.source,
        timed.rx_bytes_per_second,
        timed.tx_bytes_per_second,
        {% for name in totals + ['link_downed_total', 'symbol_errors_total', 'speed_bits_per_second'] -%}
            cast(timed.{{ name }} as bigint) as {{ name }},
        {% endfor -%}
        timed.is_up,
        timed.rtt_seconds,
        cast(timed.implausible_values as bigint) as implausible_values
    from timed
    left join nodes on timed.node_id = nodes.node_id

)

select * from final
