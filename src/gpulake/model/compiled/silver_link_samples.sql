with collected as (

    select
        node as node_id,
        host_id,
        coalesce(iface, nullif(regexp_extract(link, '([^.]+)$', 1), ''), link) as interface,
        to_timestamp(ts_ms / 1000) as sampled_at,
        'collector' as source,
        "rx_Bps" as rx_bytes_per_second,
        "tx_Bps" as tx_bytes_per_second,
        cast(rx_bytes_total as double) as rx_bytes_total,
        cast(tx_bytes_total as double) as tx_bytes_total,
        cast(rx_packets_total as double) as rx_packets_total,
        cast(tx_packets_total as double) as tx_packets_total,
        cast(rx_errors_total as double) as rx_errors_total,
        cast(tx_errors_total as double) as tx_errors_total,
        cast(rx_dropped_total as double) as rx_dropped_total,
        cast(tx_dropped_total as double) as tx_dropped_total,
        cast(carrier_changes_total as double) as carrier_changes_total,
        cast(link_downed_total as double) as link_downed_total,
        cast(symbol_errors_total as double) as symbol_errors_total,
        cast(speed_bits_per_second as double) as speed_bits_per_second,
        is_up,
        rtt_seconds
    from "landed"."main"."bronze_link_metrics"

),

pages as (

    select
        node_id,
        json_extract_string(labels, '$."device"') || coalesce('/' || json_extract_string(labels, '$."port"'), '') as interface,
        sampled_at,
        max(
                case
                    when
                        metric = 'node_network_receive_bytes_total'
                        or metric = 'node_infiniband_port_data_received_bytes_total'
                        then value
                end
            ) as rx_bytes_total,
        max(
                case
                    when
                        metric = 'node_network_transmit_bytes_total'
                        or metric = 'node_infiniband_port_data_transmitted_bytes_total'
                        then value
                end
            ) as tx_bytes_total,
        max(
                case
                    when
                        metric = 'node_network_receive_packets_total'
                        or metric = ''
                        then value
                end
            ) as rx_packets_total,
        max(
                case
                    when
                        metric = 'node_network_transmit_packets_total'
                        or metric = ''
                        then value
                end
            ) as tx_packets_total,
        max(
                case
                    when
                        metric = 'node_network_receive_errs_total'
                        or metric = ''
                        then value
                end
            ) as rx_errors_total,
        max(
                case
                    when
                        metric = 'node_network_transmit_errs_total'
                        or metric = ''
                        then value
                end
            ) as tx_errors_total,
        max(
                case
                    when
                        metric = 'node_network_receive_drop_total'
                        or metric = ''
                        then value
                end
            ) as rx_dropped_total,
        max(
                case
                    when
                        metric = 'node_network_transmit_drop_total'
                        or metric = ''
                        then value
                end
            ) as tx_dropped_total,
        max(
                case
                    when
                        metric = 'node_network_carrier_changes_total'
                        or metric = ''
                        then value
                end
            ) as carrier_changes_total,
        max(
                case
                    when
                        metric = ''
                        or metric = 'node_infiniband_link_downed_total'
                        then value
                end
            ) as link_downed_total,
        max(
                case
                    when
                        metric = ''
                        or metric = 'node_infiniband_symbol_error_total'
                        then value
                end
            ) as symbol_errors_total,
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
    from __dbt__cte__prometheus_samples
    where metric like 'node\_network\_%' escape '\' or metric like 'node\_infiniband\_%' escape '\'
    group by all

),

followed as (

    select
        *,
        lag(rx_bytes_total) over by_time as rx_bytes_before,
        lag(tx_bytes_total) over by_time as tx_bytes_before,
        (epoch_us(sampled_at) / 1e6) - (epoch_us(lag(sampled_at) over by_time) / 1e6) as interval_seconds
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
        case when rx_bytes_total >= rx_bytes_before and interval_seconds > 0 then (rx_bytes_total - rx_bytes_before) / interval_seconds end
                as rx_bytes_per_second,
        case when tx_bytes_total >= tx_bytes_before and interval_seconds > 0 then (tx_bytes_total - tx_bytes_before) / interval_seconds end
                as tx_bytes_per_second,
        rx_bytes_total,
        tx_bytes_total,
        rx_packets_total,
        tx_packets_total,
        rx_errors_total,
        tx_errors_total,
        rx_dropped_total,
        tx_dropped_total,
        carrier_changes_total,
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

    select * from "lake"."main"."silver_nodes"

),

cleaned as (

    select
        * replace (
            case when rx_bytes_per_second between 0 and 1e13 then rx_bytes_per_second end as rx_bytes_per_second,
            case when tx_bytes_per_second between 0 and 1e13 then tx_bytes_per_second end as tx_bytes_per_second,
            case when rx_bytes_total between 0 and 9e18 then rx_bytes_total end as rx_bytes_total,
            case when tx_bytes_total between 0 and 9e18 then tx_bytes_total end as tx_bytes_total,
            case when rx_packets_total between 0 and 9e18 then rx_packets_total end as rx_packets_total,
            case when tx_packets_total between 0 and 9e18 then tx_packets_total end as tx_packets_total,
            case when rx_errors_total between 0 and 9e18 then rx_errors_total end as rx_errors_total,
            case when tx_errors_total between 0 and 9e18 then tx_errors_total end as tx_errors_total,
            case when rx_dropped_total between 0 and 9e18 then rx_dropped_total end as rx_dropped_total,
            case when tx_dropped_total between 0 and 9e18 then tx_dropped_total end as tx_dropped_total,
            case when carrier_changes_total between 0 and 9e18 then carrier_changes_total end as carrier_changes_total,
            case when link_downed_total between 0 and 9e18 then link_downed_total end as link_downed_total,
            case when symbol_errors_total between 0 and 9e18 then symbol_errors_total end as symbol_errors_total,
            case when speed_bits_per_second between 0 and 1e13 then speed_bits_per_second end as speed_bits_per_second
            
        ),
        case when rx_bytes_per_second is not null and not (rx_bytes_per_second between 0 and 1e13) then 1 else 0 end + case when tx_bytes_per_second is not null and not (tx_bytes_per_second between 0 and 1e13) then 1 else 0 end + case when rx_bytes_total is not null and not (rx_bytes_total between 0 and 9e18) then 1 else 0 end + case when tx_bytes_total is not null and not (tx_bytes_total between 0 and 9e18) then 1 else 0 end + case when rx_packets_total is not null and not (rx_packets_total between 0 and 9e18) then 1 else 0 end + case when tx_packets_total is not null and not (tx_packets_total between 0 and 9e18) then 1 else 0 end + case when rx_errors_total is not null and not (rx_errors_total between 0 and 9e18) then 1 else 0 end + case when tx_errors_total is not null and not (tx_errors_total between 0 and 9e18) then 1 else 0 end + case when rx_dropped_total is not null and not (rx_dropped_total between 0 and 9e18) then 1 else 0 end + case when tx_dropped_total is not null and not (tx_dropped_total between 0 and 9e18) then 1 else 0 end + case when carrier_changes_total is not null and not (carrier_changes_total between 0 and 9e18) then 1 else 0 end + case when link_downed_total is not null and not (link_downed_total between 0 and 9e18) then 1 else 0 end + case when symbol_errors_total is not null and not (symbol_errors_total between 0 and 9e18) then 1 else 0 end + case when speed_bits_per_second is not null and not (speed_bits_per_second between 0 and 1e13) then 1 else 0 end as implausible_values
    from reported

),

once as (

    select
        node_id,
        host_id,
        interface,
        sampled_at,
        min(source) as source,
        max(rx_bytes_per_second) as rx_bytes_per_second,
        max(tx_bytes_per_second) as tx_bytes_per_second,
        max(rx_bytes_total) as rx_bytes_total,
        max(tx_bytes_total) as tx_bytes_total,
        max(rx_packets_total) as rx_packets_total,
        max(tx_packets_total) as tx_packets_total,
        max(rx_errors_total) as rx_errors_total,
        max(tx_errors_total) as tx_errors_total,
        max(rx_dropped_total) as rx_dropped_total,
        max(tx_dropped_total) as tx_dropped_total,
        max(carrier_changes_total) as carrier_changes_total,
        max(link_downed_total) as link_downed_total,
        max(symbol_errors_total) as symbol_errors_total,
        max(speed_bits_per_second) as speed_bits_per_second,
        bool_or(is_up) as is_up,
        max(rtt_seconds) as rtt_seconds,
        max(implausible_values) as implausible_values
    from cleaned
    group by node_id, host_id, interface, sampled_at

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
            window by_time as (partition by node_id, host_id, interface order by sampled_at)
        ) as followed
    ) as usual


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
        cast(timed.rx_bytes_total as bigint) as rx_bytes_total,
        cast(timed.tx_bytes_total as bigint) as tx_bytes_total,
        cast(timed.rx_packets_total as bigint) as rx_packets_total,
        cast(timed.tx_packets_total as bigint) as tx_packets_total,
        cast(timed.rx_errors_total as bigint) as rx_errors_total,
        cast(timed.tx_errors_total as bigint) as tx_errors_total,
        cast(timed.rx_dropped_total as bigint) as rx_dropped_total,
        cast(timed.tx_dropped_total as bigint) as tx_dropped_total,
        cast(timed.carrier_changes_total as bigint) as carrier_changes_total,
        cast(timed.link_downed_total as bigint) as link_downed_total,
        cast(timed.symbol_errors_total as bigint) as symbol_errors_total,
        cast(timed.speed_bits_per_second as bigint) as speed_bits_per_second,
        timed.is_up,
        timed.rtt_seconds,
        cast(timed.implausible_values as bigint) as implausible_values
    from timed
    left join nodes on timed.node_id = nodes.node_id

)

select * from final

-- test: accepted_values_silver_link_samples_source__collector__node_exporter(source) error
where source not in ('collector', 'node_exporter')

-- test: an_interface_is_sampled_once_at_a_time() error
select node_id, host_id, interface, sampled_at
from "lake"."main"."silver_link_samples"
group by node_id, host_id, interface, sampled_at
having count(*) > 1

-- test: not_null_silver_link_samples_cluster_id(cluster_id) error
where cluster_id is null

-- test: not_null_silver_link_samples_covers_seconds(covers_seconds) error
where covers_seconds is null

-- test: not_null_silver_link_samples_implausible_values(implausible_values) error
where implausible_values is null

-- test: not_null_silver_link_samples_interface(interface) error
where interface is null

-- test: not_null_silver_link_samples_node_id(node_id) error
where node_id is null

-- test: not_null_silver_link_samples_sampled_at(sampled_at) error
where sampled_at is null

-- test: not_null_silver_link_samples_source(source) error
where source is null

-- test: values_of_link_samples_can_be() error
where not (coalesce(covers_seconds, 0) >= 0 and coalesce(rx_bytes_per_second, 0) >= 0 and coalesce(tx_bytes_per_second, 0) >= 0 and coalesce(rx_bytes_total, 0) >= 0 and coalesce(tx_bytes_total, 0) >= 0 and coalesce(rx_packets_total, 0) >= 0 and coalesce(tx_packets_total, 0) >= 0 and coalesce(rx_errors_total, 0) >= 0 and coalesce(tx_errors_total, 0) >= 0 and coalesce(rx_dropped_total, 0) >= 0 and coalesce(tx_dropped_total, 0) >= 0 and coalesce(carrier_changes_total, 0) >= 0 and coalesce(link_downed_total, 0) >= 0 and coalesce(symbol_errors_total, 0) >= 0 and coalesce(speed_bits_per_second, 0) >= 0 and coalesce(rtt_seconds, 0) >= 0 and coalesce(implausible_values, 0) >= 0)
