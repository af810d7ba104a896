-- Snapshots of nvidia-smi, in our units. Their times are those of the node's clock, in the zone of its cluster.

with snapshots as (

    select
        *,
        nullif(regexp_extract(file, '^(.+?)(\.[A-Za-z]+)?$', 1), '') as node_id
    from "landed"."main"."bronze_nvidia_smi"

),

nodes as (

    select * from "lake"."main"."silver_nodes"

),

zoned as (

    select
        snapshots.*,
        nodes.time_zone
    from snapshots
    left join nodes on snapshots.node_id = nodes.node_id

),

identified as (

    select
        *,
        coalesce(
            case when uuid not like '%N/A%' then uuid end,
            node_id || '/' || coalesce(nullif(regexp_extract(lower(pci_bus_id), '([0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2})', 1), ''), 'gpu' || index),
            serial
        ) as board_id,
        coalesce(case
        when time_zone = 'UTC' then timezone('UTC', timestamp)
        else timezone(time_zone, timestamp)
    end, file_at) as sampled_at
    from zoned

)

select
    node_id,
    cast(null as varchar) as host_id,
    board_id || coalesce('/' || mig_gpu_instance_id || '/' || mig_compute_instance_id, '') as gpu_id,
    case when mig_index is not null then board_id end as parent_gpu_id,
    case
        when try_cast(nullif(regexp_extract(index, '^\(?(-?[0-9]+(\.[0-9]+)?)', 1), '') as double) between 0 and 2147483631 then cast(try_cast(nullif(regexp_extract(index, '^\(?(-?[0-9]+(\.[0-9]+)?)', 1), '') as double) as bigint)
    end as gpu_index,
    name as gpu_name,
    pci_bus_id,
    cast(null as varchar) as mig_profile,
    sampled_at,
    'nvidia_smi' as source,
    3 as preference,
    try_cast(nullif(regexp_extract(utilization_gpu, '^\(?(-?[0-9]+(\.[0-9]+)?)', 1), '') as double) * 0.01 as gpu_busy_ratio,
    try_cast(nullif(regexp_extract(utilization_memory, '^\(?(-?[0-9]+(\.[0-9]+)?)', 1), '') as double) * 0.01 as memory_busy_ratio,
    try_cast(nullif(regexp_extract(utilization_encoder, '^\(?(-?[0-9]+(\.[0-9]+)?)', 1), '') as double) * 0.01 as encoder_busy_ratio,
    try_cast(nullif(regexp_extract(utilization_decoder, '^\(?(-?[0-9]+(\.[0-9]+)?)', 1), '') as double) * 0.01 as decoder_busy_ratio,
    cast(null as double) as sm_active_ratio,
    cast(null as double) as sm_occupancy_ratio,
    cast(null as double) as tensor_active_ratio,
    cast(null as double) as dram_active_ratio,
    cast(null as double) as graphics_active_ratio,
    try_cast(nullif(regexp_extract(memory_used, '^\(?(-?[0-9]+(\.[0-9]+)?)', 1), '') as double) * 1048576.0 as memory_used_bytes,
    try_cast(nullif(regexp_extract(memory_total, '^\(?(-?[0-9]+(\.[0-9]+)?)', 1), '') as double) * 1048576.0 as memory_total_bytes,
    coalesce(try_cast(nullif(regexp_extract(power_draw_instant, '^\(?(-?[0-9]+(\.[0-9]+)?)', 1), '') as double), try_cast(nullif(regexp_extract(power_draw, '^\(?(-?[0-9]+(\.[0-9]+)?)', 1), '') as double), try_cast(nullif(regexp_extract(power_draw_average, '^\(?(-?[0-9]+(\.[0-9]+)?)', 1), '') as double)) * 1 as power_watts,
    coalesce(try_cast(nullif(regexp_extract(enforced_power_limit, '^\(?(-?[0-9]+(\.[0-9]+)?)', 1), '') as double), try_cast(nullif(regexp_extract(power_limit, '^\(?(-?[0-9]+(\.[0-9]+)?)', 1), '') as double)) * 1 as power_limit_watts,
    cast(null as double) as energy_joules_total,
    try_cast(nullif(regexp_extract(temperature_gpu, '^\(?(-?[0-9]+(\.[0-9]+)?)', 1), '') as double) * 1 as temperature_celsius,
    try_cast(nullif(regexp_extract(temperature_memory, '^\(?(-?[0-9]+(\.[0-9]+)?)', 1), '') as double) * 1 as memory_temperature_celsius,
    try_cast(nullif(regexp_extract(temperature_slowdown, '^\(?(-?[0-9]+(\.[0-9]+)?)', 1), '') as double) * 1 as slowdown_temperature_celsius,
    try_cast(nullif(regexp_extract(clocks_current_sm, '^\(?(-?[0-9]+(\.[0-9]+)?)', 1), '') as double) * 1000000.0 as sm_clock_hertz,
    try_cast(nullif(regexp_extract(clocks_current_memory, '^\(?(-?[0-9]+(\.[0-9]+)?)', 1), '') as double) * 1000000.0 as memory_clock_hertz,
    cast(try_cast(clocks_event_reasons_active as bigint) as double) as clock_event_reasons,
    cast(null as double) as power_violation_seconds_total,
    cast(null as double) as thermal_violation_seconds_total,
    try_cast(nullif(regexp_extract(ecc_errors_corrected_volatile_total, '^\(?(-?[0-9]+(\.[0-9]+)?)', 1), '') as double) * 1 as ecc_corrected_total,
    try_cast(nullif(regexp_extract(ecc_errors_uncorrected_volatile_total, '^\(?(-?[0-9]+(\.[0-9]+)?)', 1), '') as double) * 1 as ecc_uncorrected_total,
    try_cast(nullif(regexp_extract(ecc_errors_corrected_aggregate_total, '^\(?(-?[0-9]+(\.[0-9]+)?)', 1), '') as double) * 1 as ecc_corrected_lifetime_total,
    try_cast(nullif(regexp_extract(ecc_errors_uncorrected_aggregate_total, '^\(?(-?[0-9]+(\.[0-9]+)?)', 1), '') as double) * 1 as ecc_uncorrected_lifetime_total,
    try_cast(nullif(regexp_extract(remapped_rows_correctable, '^\(?(-?[0-9]+(\.[0-9]+)?)', 1), '') as double) * 1 as remapped_rows_correctable,
    try_cast(nullif(regexp_extract(remapped_rows_uncorrectable, '^\(?(-?[0-9]+(\.[0-9]+)?)', 1), '') as double) * 1 as remapped_rows_uncorrectable,
    cast(null as double) as last_xid,
    cast(null as double) as pcie_rx_bytes_per_second,
    cast(null as double) as pcie_tx_bytes_per_second,
    try_cast(nullif(regexp_extract(pcie_replay_counter, '^\(?(-?[0-9]+(\.[0-9]+)?)', 1), '') as double) * 1 as pcie_replays_total,
    try_cast(nullif(regexp_extract(pcie_link_gen_current, '^\(?(-?[0-9]+(\.[0-9]+)?)', 1), '') as double) * 1 as pcie_link_generation,
    try_cast(nullif(regexp_extract(pcie_link_width_current, '^\(?(-?[0-9]+(\.[0-9]+)?)', 1), '') as double) * 1 as pcie_link_width,
    cast(null as double) as nvlink_rx_bytes_per_second,
    cast(null as double) as nvlink_tx_bytes_per_second,
    cast(null as double) as nvlink_errors_total,
    cast(null as double) as nvlink_links_active,
    try_cast(nullif(regexp_extract(processes, '^\(?(-?[0-9]+(\.[0-9]+)?)', 1), '') as double) * 1 as processes,
    case lower(remapped_rows_pending) when 'yes' then true when 'no' then false end as has_remap_pending,
    case lower(remapped_rows_failure) when 'yes' then true when 'no' then false end as has_remap_failure,
    -- It lists processes and not who was given the GPU, and in a container not even those.
    case when try_cast(nullif(regexp_extract(processes, '^\(?(-?[0-9]+(\.[0-9]+)?)', 1), '') as double) > 0 then 'unattributed' end as owner_kind,
    cast(null as varchar) as owner_id,
    case when try_cast(nullif(regexp_extract(processes, '^\(?(-?[0-9]+(\.[0-9]+)?)', 1), '') as double) > 0 then 'process' end as owner_evidence
from identified
where board_id is not null
