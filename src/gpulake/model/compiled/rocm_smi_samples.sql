-- Snapshots of rocm-smi, in our units. They say no time: it is that of their file.

with snapshots as (

    select
        *,
        nullif(regexp_extract(file, '^(.+?)(\.[A-Za-z]+)?$', 1), '') as node_id
    from "landed"."main"."bronze_rocm_smi"

)

select
    node_id,
    cast(null as varchar) as host_id,
    coalesce(
        case when unique_id like '0x%' then unique_id end,
        node_id || '/' || coalesce(nullif(regexp_extract(lower(pci_bus), '([0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2})', 1), ''), card)
    ) as gpu_id,
    cast(null as varchar) as parent_gpu_id,
    case
        when try_cast(nullif(regexp_extract(replace(card, 'card', ''), '^\(?(-?[0-9]+(\.[0-9]+)?)', 1), '') as double) between 0 and 2147483631 then cast(try_cast(nullif(regexp_extract(replace(card, 'card', ''), '^\(?(-?[0-9]+(\.[0-9]+)?)', 1), '') as double) as bigint)
    end as gpu_index,
    coalesce(device_name, card_series, card_model) as gpu_name,
    pci_bus as pci_bus_id,
    cast(null as varchar) as mig_profile,
    file_at as sampled_at,
    'rocm_smi' as source,
    4 as preference,
    try_cast(nullif(regexp_extract(gpu_use, '^\(?(-?[0-9]+(\.[0-9]+)?)', 1), '') as double) * 0.01 as gpu_busy_ratio,
    coalesce(try_cast(nullif(regexp_extract(gpu_memory_read_write_activity, '^\(?(-?[0-9]+(\.[0-9]+)?)', 1), '') as double), try_cast(nullif(regexp_extract(gpu_memory_use, '^\(?(-?[0-9]+(\.[0-9]+)?)', 1), '') as double)) * 0.01 as memory_busy_ratio,
    cast(null as double) as encoder_busy_ratio,
    cast(null as double) as decoder_busy_ratio,
    cast(null as double) as sm_active_ratio,
    cast(null as double) as sm_occupancy_ratio,
    cast(null as double) as tensor_active_ratio,
    cast(null as double) as dram_active_ratio,
    cast(null as double) as graphics_active_ratio,
    try_cast(nullif(regexp_extract(vram_total_used_memory_b, '^\(?(-?[0-9]+(\.[0-9]+)?)', 1), '') as double) * 1 as memory_used_bytes,
    try_cast(nullif(regexp_extract(vram_total_memory_b, '^\(?(-?[0-9]+(\.[0-9]+)?)', 1), '') as double) * 1 as memory_total_bytes,
    coalesce(try_cast(nullif(regexp_extract(current_socket_graphics_package_power_w, '^\(?(-?[0-9]+(\.[0-9]+)?)', 1), '') as double), try_cast(nullif(regexp_extract(average_graphics_package_power_w, '^\(?(-?[0-9]+(\.[0-9]+)?)', 1), '') as double)) * 1 as power_watts,
    try_cast(nullif(regexp_extract(max_graphics_package_power_w, '^\(?(-?[0-9]+(\.[0-9]+)?)', 1), '') as double) * 1 as power_limit_watts,
    try_cast(nullif(regexp_extract(accumulated_energy_uj, '^\(?(-?[0-9]+(\.[0-9]+)?)', 1), '') as double) * 1e-06 as energy_joules_total,
    coalesce(try_cast(nullif(regexp_extract(temperature_sensor_junction_c, '^\(?(-?[0-9]+(\.[0-9]+)?)', 1), '') as double), try_cast(nullif(regexp_extract(temperature_sensor_edge_c, '^\(?(-?[0-9]+(\.[0-9]+)?)', 1), '') as double)) * 1 as temperature_celsius,
    try_cast(nullif(regexp_extract(temperature_sensor_memory_c, '^\(?(-?[0-9]+(\.[0-9]+)?)', 1), '') as double) * 1 as memory_temperature_celsius,
    cast(null as double) as slowdown_temperature_celsius,
    try_cast(nullif(regexp_extract(sclk_clock_speed, '^\(?(-?[0-9]+(\.[0-9]+)?)', 1), '') as double) * 1000000.0 as sm_clock_hertz,
    try_cast(nullif(regexp_extract(mclk_clock_speed, '^\(?(-?[0-9]+(\.[0-9]+)?)', 1), '') as double) * 1000000.0 as memory_clock_hertz,
    cast(null as double) as clock_event_reasons,
    cast(null as double) as power_violation_seconds_total,
    cast(null as double) as thermal_violation_seconds_total,
    cast(null as double) as ecc_corrected_total,
    cast(null as double) as ecc_uncorrected_total,
    cast(null as double) as ecc_corrected_lifetime_total,
    cast(null as double) as ecc_uncorrected_lifetime_total,
    cast(null as double) as remapped_rows_correctable,
    cast(null as double) as remapped_rows_uncorrectable,
    cast(null as double) as last_xid,
    cast(null as double) as pcie_rx_bytes_per_second,
    cast(null as double) as pcie_tx_bytes_per_second,
    try_cast(nullif(regexp_extract(pcie_replay_count, '^\(?(-?[0-9]+(\.[0-9]+)?)', 1), '') as double) * 1 as pcie_replays_total,
    cast(null as double) as pcie_link_generation,
    cast(null as double) as pcie_link_width,
    cast(null as double) as nvlink_rx_bytes_per_second,
    cast(null as double) as nvlink_tx_bytes_per_second,
    cast(null as double) as nvlink_errors_total,
    cast(null as double) as nvlink_links_active,
    cast(null as double) as processes,
    cast(null as boolean) as has_remap_pending,
    cast(null as boolean) as has_remap_failure,
    cast(null as varchar) as owner_kind,
    cast(null as varchar) as owner_id,
    cast(null as varchar) as owner_evidence
from snapshots
