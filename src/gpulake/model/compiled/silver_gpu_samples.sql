-- All sources tell of a GPU, the best one at a time, so that its time is shared out once whoever saw it.

with  __dbt__cte__collected_gpu_samples as (
-- What our own collector says of GPUs. It looks at who uses them and whom they were given to: where it could list the
-- processes on a GPU, there were none, and no owner had been given it, it was nobody's.

select
    node as node_id,
    host_id,
    gpu_uuid as gpu_id,
    parent_uuid as parent_gpu_id,
    gpu_index,
    gpu_name,
    pci_bus_id,
    mig_profile,
    to_timestamp(ts_ms / 1000) as sampled_at,
    'collector' as source,
    1 as preference,
    cast(gpu_busy_ratio as double) as gpu_busy_ratio,
    cast(memory_busy_ratio as double) as memory_busy_ratio,
    cast(encoder_busy_ratio as double) as encoder_busy_ratio,
    cast(decoder_busy_ratio as double) as decoder_busy_ratio,
    cast(sm_active_ratio as double) as sm_active_ratio,
    cast(sm_occupancy_ratio as double) as sm_occupancy_ratio,
    cast(tensor_active_ratio as double) as tensor_active_ratio,
    cast(dram_active_ratio as double) as dram_active_ratio,
    cast(graphics_active_ratio as double) as graphics_active_ratio,
    cast(memory_used_bytes as double) as memory_used_bytes,
    cast(memory_total_bytes as double) as memory_total_bytes,
    cast(power_watts as double) as power_watts,
    cast(power_limit_watts as double) as power_limit_watts,
    cast(energy_joules_total as double) as energy_joules_total,
    cast(temperature_celsius as double) as temperature_celsius,
    cast(memory_temperature_celsius as double) as memory_temperature_celsius,
    cast(slowdown_temperature_celsius as double) as slowdown_temperature_celsius,
    cast(sm_clock_hertz as double) as sm_clock_hertz,
    cast(memory_clock_hertz as double) as memory_clock_hertz,
    cast(clock_event_reasons as double) as clock_event_reasons,
    cast(power_violation_seconds_total as double) as power_violation_seconds_total,
    cast(thermal_violation_seconds_total as double) as thermal_violation_seconds_total,
    cast(ecc_corrected_total as double) as ecc_corrected_total,
    cast(ecc_uncorrected_total as double) as ecc_uncorrected_total,
    cast(ecc_corrected_lifetime_total as double) as ecc_corrected_lifetime_total,
    cast(ecc_uncorrected_lifetime_total as double) as ecc_uncorrected_lifetime_total,
    cast(remapped_rows_correctable as double) as remapped_rows_correctable,
    cast(remapped_rows_uncorrectable as double) as remapped_rows_uncorrectable,
    cast(null as double) as last_xid,
    cast(pcie_rx_bytes_per_second as double) as pcie_rx_bytes_per_second,
    cast(pcie_tx_bytes_per_second as double) as pcie_tx_bytes_per_second,
    cast(pcie_replays_total as double) as pcie_replays_total,
    cast(pcie_link_generation as double) as pcie_link_generation,
    cast(pcie_link_width as double) as pcie_link_width,
    cast(nvlink_rx_bytes_per_second as double) as nvlink_rx_bytes_per_second,
    cast(nvlink_tx_bytes_per_second as double) as nvlink_tx_bytes_per_second,
    cast(nvlink_errors_total as double) as nvlink_errors_total,
    cast(nvlink_links_active as double) as nvlink_links_active,
    cast(processes as double) as processes,
    has_remap_pending,
    has_remap_failure,
    case
        when owner_kind in ('slurm', 'pod', 'container', 'trace', 'several', 'unattributed', 'nobody') then owner_kind
        when owner_kind is not null then 'unattributed'
        when processes = 0 then 'nobody'
    end as owner_kind,
    owner_id,
    owner_evidence
from "landed"."main"."bronze_gpu_metrics"
),  __dbt__cte__prometheus_samples as (
-- Samples of Prometheus pages, with their node and their time. A node is named by a label, by its own uname or, where
-- nothing says it, by the file. A time is the sample's own, that of the node's clock on the page, or the file's.

with samples as (

    select * from "landed"."main"."bronze_prometheus_samples"
    where metric like 'DCGM\_%' escape '\' or metric like 'node\_%' escape '\'

),

pages as (

    select
        file,
        folder,
        file_at,
        max(case when metric = 'node_uname_info' then json_extract_string(labels, '$."nodename"') end) as node_name,
        max(case when metric = 'node_time_seconds' and value between 0 and 4102444800 then value end) as page_seconds
    from samples
    where metric in ('node_uname_info', 'node_time_seconds')
    group by file, folder, file_at

)

select
    samples.metric,
    samples.labels,
    case when isfinite(samples.value) then samples.value end as value,
    coalesce(
        nullif(json_extract_string(samples.labels, '$."Hostname"'), ''),
        nullif(json_extract_string(samples.labels, '$."hostname"'), ''),
        nullif(regexp_extract(json_extract_string(samples.labels, '$."instance"'), '^(.+?)(:[0-9]+)?$', 1), ''),
        nullif(pages.node_name, ''),
        nullif(regexp_extract(samples.file, '^(.+?)(\.[A-Za-z]+)?$', 1), '')
    ) as node_id,
    coalesce(
        to_timestamp(samples.ts_ms / 1000), to_timestamp(pages.page_seconds), samples.file_at
    ) as sampled_at
from samples
left join pages
    on
        samples.file = pages.file
        and samples.folder is not distinct from pages.folder
        and samples.file_at = pages.file_at
),  __dbt__cte__dcgm_samples as (
-- What dcgm-exporter says of GPUs and MIG instances, a row for each and time, in our units.

with samples as (

    select
        *,
        json_extract_string(labels, '$."UUID"') as uuid,
        nullif(json_extract_string(labels, '$."GPU_I_ID"'), '') as instance_id,
        nullif(json_extract_string(labels, '$."hpc_job"'), '') as slurm_job,
        nullif(json_extract_string(labels, '$."exported_pod"'), '') as exported_pod,
        nullif(json_extract_string(labels, '$."pod"'), '') as scraped_pod
    from __dbt__cte__prometheus_samples
    where metric like 'DCGM\_FI\_%' escape '\'

),

-- A Prometheus that finds its targets through Kubernetes writes the exporter's own pod into `pod`, and moves what the
-- exporter says to `exported_pod`. Only where it never does so, and the name is not an exporter's, `pod` holds the GPU.
relabelled as (

    select distinct scraped_pod
    from samples
    where exported_pod is not null and scraped_pod is not null

),

owned as (

    select
        *,
        coalesce(
            exported_pod,
            case
                when
                    scraped_pod not in (select relabelled.scraped_pod from relabelled)
                    and scraped_pod not like '%dcgm-exporter%'
                    then scraped_pod
            end
        ) as pod,
        coalesce(
            nullif(json_extract_string(labels, '$."exported_namespace"'), ''),
            nullif(json_extract_string(labels, '$."namespace"'), '')
        ) as pod_namespace
    from samples

),

-- An exporter that names holders on a node proves that a GPU which it gives none has none. Others do not look.
looking as (

    select distinct node_id
    from owned
    where coalesce(pod, slurm_job) is not null

),

named as (

    select
        *,
        coalesce(nullif(uuid, ''), node_id || '/gpu' || json_extract_string(labels, '$."gpu"')) as board_id
    from owned

)

select
    max(node_id) as node_id,
    cast(null as varchar) as host_id,
    board_id || coalesce('/' || instance_id, '') as gpu_id,
    case when instance_id is not null then board_id end as parent_gpu_id,
    case
        when try_cast(nullif(regexp_extract(max(json_extract_string(labels, '$."gpu"')), '^\(?(-?[0-9]+(\.[0-9]+)?)', 1), '') as double) between 0 and 2147483631 then cast(try_cast(nullif(regexp_extract(max(json_extract_string(labels, '$."gpu"')), '^\(?(-?[0-9]+(\.[0-9]+)?)', 1), '') as double) as bigint)
    end as gpu_index,
    max(json_extract_string(labels, '$."modelName"')) as gpu_name,
    max(json_extract_string(labels, '$."pci_bus_id"')) as pci_bus_id,
    max(nullif(json_extract_string(labels, '$."GPU_I_PROFILE"'), '')) as mig_profile,
    sampled_at,
    'dcgm' as source,
    2 as preference,
    max(case when metric in ('DCGM_FI_DEV_GPU_UTIL') then value * 0.01 end) as gpu_busy_ratio,
    max(case when metric in ('DCGM_FI_DEV_MEM_COPY_UTIL') then value * 0.01 end) as memory_busy_ratio,
    max(case when metric in ('DCGM_FI_DEV_ENC_UTIL') then value * 0.01 end) as encoder_busy_ratio,
    max(case when metric in ('DCGM_FI_DEV_DEC_UTIL') then value * 0.01 end) as decoder_busy_ratio,
    max(case when metric in ('DCGM_FI_PROF_SM_ACTIVE') then value * 1 end) as sm_active_ratio,
    max(case when metric in ('DCGM_FI_PROF_SM_OCCUPANCY') then value * 1 end) as sm_occupancy_ratio,
    max(case when metric in ('DCGM_FI_PROF_PIPE_TENSOR_ACTIVE') then value * 1 end) as tensor_active_ratio,
    max(case when metric in ('DCGM_FI_PROF_DRAM_ACTIVE') then value * 1 end) as dram_active_ratio,
    max(case when metric in ('DCGM_FI_PROF_GR_ENGINE_ACTIVE') then value * 1 end) as graphics_active_ratio,
    max(case when metric in ('DCGM_FI_DEV_FB_USED') then value * 1048576.0 end) as memory_used_bytes,
    coalesce(
                max(case when metric in ('DCGM_FI_DEV_FB_TOTAL') then value * 1048576.0 end),
                max(case when metric in ('DCGM_FI_DEV_FB_USED') then value * 1048576.0 end) + max(case when metric in ('DCGM_FI_DEV_FB_FREE') then value * 1048576.0 end)
                + coalesce(max(case when metric in ('DCGM_FI_DEV_FB_RESERVED') then value * 1048576.0 end), 0)
            ) as memory_total_bytes,
    max(case when metric in ('DCGM_FI_DEV_POWER_USAGE') then value * 1 end) as power_watts,
    max(case when metric in ('DCGM_FI_DEV_POWER_MGMT_LIMIT') then value * 1 end) as power_limit_watts,
    max(case when metric in ('DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION') then value * 0.001 end) as energy_joules_total,
    max(case when metric in ('DCGM_FI_DEV_GPU_TEMP') then value * 1 end) as temperature_celsius,
    max(case when metric in ('DCGM_FI_DEV_MEMORY_TEMP') then value * 1 end) as memory_temperature_celsius,
    max(case when metric in ('DCGM_FI_DEV_SLOWDOWN_TEMP') then value * 1 end) as slowdown_temperature_celsius,
    max(case when metric in ('DCGM_FI_DEV_SM_CLOCK') then value * 1000000.0 end) as sm_clock_hertz,
    max(case when metric in ('DCGM_FI_DEV_MEM_CLOCK') then value * 1000000.0 end) as memory_clock_hertz,
    max(case when metric in ('DCGM_FI_DEV_CLOCK_THROTTLE_REASONS', 'DCGM_FI_DEV_CLOCKS_EVENT_REASONS') then value * 1 end) as clock_event_reasons,
    max(case when metric in ('DCGM_FI_DEV_POWER_VIOLATION') then value * 1e-09 end) as power_violation_seconds_total,
    max(case when metric in ('DCGM_FI_DEV_THERMAL_VIOLATION') then value * 1e-09 end) as thermal_violation_seconds_total,
    max(case when metric in ('DCGM_FI_DEV_ECC_SBE_VOL_TOTAL') then value * 1 end) as ecc_corrected_total,
    max(case when metric in ('DCGM_FI_DEV_ECC_DBE_VOL_TOTAL') then value * 1 end) as ecc_uncorrected_total,
    max(case when metric in ('DCGM_FI_DEV_ECC_SBE_AGG_TOTAL') then value * 1 end) as ecc_corrected_lifetime_total,
    max(case when metric in ('DCGM_FI_DEV_ECC_DBE_AGG_TOTAL') then value * 1 end) as ecc_uncorrected_lifetime_total,
    max(case when metric in ('DCGM_FI_DEV_CORRECTABLE_REMAPPED_ROWS') then value * 1 end) as remapped_rows_correctable,
    max(case when metric in ('DCGM_FI_DEV_UNCORRECTABLE_REMAPPED_ROWS') then value * 1 end) as remapped_rows_uncorrectable,
    max(case when metric in ('DCGM_FI_DEV_XID_ERRORS') then value * 1 end) as last_xid,
    max(case when metric in ('DCGM_FI_PROF_PCIE_RX_BYTES') then value * 1 end) as pcie_rx_bytes_per_second,
    max(case when metric in ('DCGM_FI_PROF_PCIE_TX_BYTES') then value * 1 end) as pcie_tx_bytes_per_second,
    max(case when metric in ('DCGM_FI_DEV_PCIE_REPLAY_COUNTER') then value * 1 end) as pcie_replays_total,
    max(case when metric in ('DCGM_FI_DEV_PCIE_LINK_GEN') then value * 1 end) as pcie_link_generation,
    max(case when metric in ('DCGM_FI_DEV_PCIE_LINK_WIDTH') then value * 1 end) as pcie_link_width,
    max(case when metric in ('DCGM_FI_PROF_NVLINK_RX_BYTES') then value * 1 end) as nvlink_rx_bytes_per_second,
    max(case when metric in ('DCGM_FI_PROF_NVLINK_TX_BYTES') then value * 1 end) as nvlink_tx_bytes_per_second,
    cast(null as double) as nvlink_errors_total,
    cast(null as double) as nvlink_links_active,
    cast(null as double) as processes,
    max(case when metric in ('DCGM_FI_DEV_ROW_REMAP_PENDING') then value * 1 end) > 0 as has_remap_pending,
    max(case when metric in ('DCGM_FI_DEV_ROW_REMAP_FAILURE') then value * 1 end) > 0 as has_remap_failure,
    -- A GPU that several hold at once has a series for each of them.
    case
        when count(distinct slurm_job) + count(distinct pod) > 1 then 'several'
        when max(slurm_job) is not null then 'slurm'
        when max(pod) is not null then 'pod'
        when max(node_id) in (select looking.node_id from looking) then 'nobody'
    end as owner_kind,
    case
        when count(distinct slurm_job) + count(distinct pod) = 1
            then coalesce(max(slurm_job), max(coalesce(pod_namespace || '/', '') || pod))
    end as owner_id,
    case when coalesce(max(slurm_job), max(pod)) is not null then 'environment' end as owner_evidence
from named
where board_id is not null
group by board_id, instance_id, sampled_at
),  __dbt__cte__nvidia_smi_samples as (
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
),  __dbt__cte__rocm_smi_samples as (
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
), told as (

    select * from __dbt__cte__collected_gpu_samples
    union all by name
    select * from __dbt__cte__dcgm_samples
    union all by name
    select * from __dbt__cte__nvidia_smi_samples
    union all by name
    select * from __dbt__cte__rocm_smi_samples

),

nodes as (

    select * from "lake"."main"."silver_nodes"

),

parameters as (

    select * from "landed"."main"."parameters"

),

-- The same run may have landed by node and merged; of two sources at one instant the one that sees more counts.
once as (

    
    with keyed as not materialized (

        select
            *,
            cast(hash(gpu_id, sampled_at) >> 1 as bigint) as row_key
        from told

    ),

    repeated as (

        select row_key
        from keyed
        group by row_key
        having count(*) > 1

    )

    select * from keyed
    where row_key not in (select row_key from repeated)

    union all

    select * from keyed
    where row_key in (select row_key from repeated)
    qualify row_number() over (partition by row_key order by preference asc, node_id asc, host_id asc nulls last, keyed) = 1


),

cleaned as (

    select
        * replace (
            case when gpu_busy_ratio between 0 and 1 then cast(gpu_busy_ratio as double) end as gpu_busy_ratio,
            case when memory_busy_ratio between 0 and 1 then cast(memory_busy_ratio as double) end as memory_busy_ratio,
            case when encoder_busy_ratio between 0 and 1 then cast(encoder_busy_ratio as double) end as encoder_busy_ratio,
            case when decoder_busy_ratio between 0 and 1 then cast(decoder_busy_ratio as double) end as decoder_busy_ratio,
            case when sm_active_ratio between 0 and 1 then cast(sm_active_ratio as double) end as sm_active_ratio,
            case when sm_occupancy_ratio between 0 and 1 then cast(sm_occupancy_ratio as double) end as sm_occupancy_ratio,
            case when tensor_active_ratio between 0 and 1 then cast(tensor_active_ratio as double) end as tensor_active_ratio,
            case when dram_active_ratio between 0 and 1 then cast(dram_active_ratio as double) end as dram_active_ratio,
            case when graphics_active_ratio between 0 and 1 then cast(graphics_active_ratio as double) end as graphics_active_ratio,
            case when memory_used_bytes between 0 and 1e17 then cast(memory_used_bytes as bigint) end as memory_used_bytes,
            case when memory_total_bytes between 0 and 1e17 then cast(memory_total_bytes as bigint) end as memory_total_bytes,
            case when power_watts between 0 and 20000 then cast(power_watts as double) end as power_watts,
            case when power_limit_watts between 0 and 20000 then cast(power_limit_watts as double) end as power_limit_watts,
            case when energy_joules_total between 0 and 1e13 then cast(energy_joules_total as double) end as energy_joules_total,
            case when temperature_celsius between -40 and 150 then cast(temperature_celsius as double) end as temperature_celsius,
            case when memory_temperature_celsius between -40 and 150 then cast(memory_temperature_celsius as double) end as memory_temperature_celsius,
            case when slowdown_temperature_celsius between -40 and 150 then cast(slowdown_temperature_celsius as double) end as slowdown_temperature_celsius,
            case when sm_clock_hertz between 0 and 2e10 then cast(sm_clock_hertz as bigint) end as sm_clock_hertz,
            case when memory_clock_hertz between 0 and 2e10 then cast(memory_clock_hertz as bigint) end as memory_clock_hertz,
            case when clock_event_reasons between 0 and 2147483631 then cast(clock_event_reasons as bigint) end as clock_event_reasons,
            case when power_violation_seconds_total between 0 and 1e12 then cast(power_violation_seconds_total as double) end as power_violation_seconds_total,
            case when thermal_violation_seconds_total between 0 and 1e12 then cast(thermal_violation_seconds_total as double) end as thermal_violation_seconds_total,
            case when ecc_corrected_total between 0 and 9e18 then cast(ecc_corrected_total as bigint) end as ecc_corrected_total,
            case when ecc_uncorrected_total between 0 and 9e18 then cast(ecc_uncorrected_total as bigint) end as ecc_uncorrected_total,
            case when ecc_corrected_lifetime_total between 0 and 9e18 then cast(ecc_corrected_lifetime_total as bigint) end as ecc_corrected_lifetime_total,
            case when ecc_uncorrected_lifetime_total between 0 and 9e18 then cast(ecc_uncorrected_lifetime_total as bigint) end as ecc_uncorrected_lifetime_total,
            case when remapped_rows_correctable between 0 and 2147483631 then cast(remapped_rows_correctable as bigint) end as remapped_rows_correctable,
            case when remapped_rows_uncorrectable between 0 and 2147483631 then cast(remapped_rows_uncorrectable as bigint) end as remapped_rows_uncorrectable,
            case when last_xid between 0 and 2147483631 then cast(last_xid as bigint) end as last_xid,
            case when pcie_rx_bytes_per_second between 0 and 1e13 then cast(pcie_rx_bytes_per_second as double) end as pcie_rx_bytes_per_second,
            case when pcie_tx_bytes_per_second between 0 and 1e13 then cast(pcie_tx_bytes_per_second as double) end as pcie_tx_bytes_per_second,
            case when pcie_replays_total between 0 and 9e18 then cast(pcie_replays_total as bigint) end as pcie_replays_total,
            case when pcie_link_generation between 0 and 2147483631 then cast(pcie_link_generation as bigint) end as pcie_link_generation,
            case when pcie_link_width between 0 and 2147483631 then cast(pcie_link_width as bigint) end as pcie_link_width,
            case when nvlink_rx_bytes_per_second between 0 and 1e13 then cast(nvlink_rx_bytes_per_second as double) end as nvlink_rx_bytes_per_second,
            case when nvlink_tx_bytes_per_second between 0 and 1e13 then cast(nvlink_tx_bytes_per_second as double) end as nvlink_tx_bytes_per_second,
            case when nvlink_errors_total between 0 and 9e18 then cast(nvlink_errors_total as bigint) end as nvlink_errors_total,
            case when nvlink_links_active between 0 and 2147483631 then cast(nvlink_links_active as bigint) end as nvlink_links_active,
            case when processes between 0 and 2147483631 then cast(processes as bigint) end as processes
            
        ),
        case when gpu_busy_ratio is not null and not (gpu_busy_ratio between 0 and 1) then 1 else 0 end + case when memory_busy_ratio is not null and not (memory_busy_ratio between 0 and 1) then 1 else 0 end + case when encoder_busy_ratio is not null and not (encoder_busy_ratio between 0 and 1) then 1 else 0 end + case when decoder_busy_ratio is not null and not (decoder_busy_ratio between 0 and 1) then 1 else 0 end + case when sm_active_ratio is not null and not (sm_active_ratio between 0 and 1) then 1 else 0 end + case when sm_occupancy_ratio is not null and not (sm_occupancy_ratio between 0 and 1) then 1 else 0 end + case when tensor_active_ratio is not null and not (tensor_active_ratio between 0 and 1) then 1 else 0 end + case when dram_active_ratio is not null and not (dram_active_ratio between 0 and 1) then 1 else 0 end + case when graphics_active_ratio is not null and not (graphics_active_ratio between 0 and 1) then 1 else 0 end + case when memory_used_bytes is not null and not (memory_used_bytes between 0 and 1e17) then 1 else 0 end + case when memory_total_bytes is not null and not (memory_total_bytes between 0 and 1e17) then 1 else 0 end + case when power_watts is not null and not (power_watts between 0 and 20000) then 1 else 0 end + case when power_limit_watts is not null and not (power_limit_watts between 0 and 20000) then 1 else 0 end + case when energy_joules_total is not null and not (energy_joules_total between 0 and 1e13) then 1 else 0 end + case when temperature_celsius is not null and not (temperature_celsius between -40 and 150) then 1 else 0 end + case when memory_temperature_celsius is not null and not (memory_temperature_celsius between -40 and 150) then 1 else 0 end + case when slowdown_temperature_celsius is not null and not (slowdown_temperature_celsius between -40 and 150) then 1 else 0 end + case when sm_clock_hertz is not null and not (sm_clock_hertz between 0 and 2e10) then 1 else 0 end + case when memory_clock_hertz is not null and not (memory_clock_hertz between 0 and 2e10) then 1 else 0 end + case when clock_event_reasons is not null and not (clock_event_reasons between 0 and 2147483631) then 1 else 0 end + case when power_violation_seconds_total is not null and not (power_violation_seconds_total between 0 and 1e12) then 1 else 0 end + case when thermal_violation_seconds_total is not null and not (thermal_violation_seconds_total between 0 and 1e12) then 1 else 0 end + case when ecc_corrected_total is not null and not (ecc_corrected_total between 0 and 9e18) then 1 else 0 end + case when ecc_uncorrected_total is not null and not (ecc_uncorrected_total between 0 and 9e18) then 1 else 0 end + case when ecc_corrected_lifetime_total is not null and not (ecc_corrected_lifetime_total between 0 and 9e18) then 1 else 0 end + case when ecc_uncorrected_lifetime_total is not null and not (ecc_uncorrected_lifetime_total between 0 and 9e18) then 1 else 0 end + case when remapped_rows_correctable is not null and not (remapped_rows_correctable between 0 and 2147483631) then 1 else 0 end + case when remapped_rows_uncorrectable is not null and not (remapped_rows_uncorrectable between 0 and 2147483631) then 1 else 0 end + case when last_xid is not null and not (last_xid between 0 and 2147483631) then 1 else 0 end + case when pcie_rx_bytes_per_second is not null and not (pcie_rx_bytes_per_second between 0 and 1e13) then 1 else 0 end + case when pcie_tx_bytes_per_second is not null and not (pcie_tx_bytes_per_second between 0 and 1e13) then 1 else 0 end + case when pcie_replays_total is not null and not (pcie_replays_total between 0 and 9e18) then 1 else 0 end + case when pcie_link_generation is not null and not (pcie_link_generation between 0 and 2147483631) then 1 else 0 end + case when pcie_link_width is not null and not (pcie_link_width between 0 and 2147483631) then 1 else 0 end + case when nvlink_rx_bytes_per_second is not null and not (nvlink_rx_bytes_per_second between 0 and 1e13) then 1 else 0 end + case when nvlink_tx_bytes_per_second is not null and not (nvlink_tx_bytes_per_second between 0 and 1e13) then 1 else 0 end + case when nvlink_errors_total is not null and not (nvlink_errors_total between 0 and 9e18) then 1 else 0 end + case when nvlink_links_active is not null and not (nvlink_links_active between 0 and 2147483631) then 1 else 0 end + case when processes is not null and not (processes between 0 and 2147483631) then 1 else 0 end as implausible_values
    from once

),

-- Apart from the many columns that they do not need, the intervals are worked out in a fraction of the time.
moments as (

    select
        row_key,
        gpu_id,
        preference,
        sampled_at,
        energy_joules_total
    from cleaned

),

several as (

    select * from moments
    where
        gpu_id in (
            select told_of.gpu_id
            from moments as told_of
            group by told_of.gpu_id
            having min(told_of.preference) < max(told_of.preference)
        )

),

looks as (

    
    select
        * exclude (usual_seconds),
        case
            when gap_seconds is null then 0
            else least(gap_seconds, 3 * usual_seconds, 7200)
        end as covers_seconds
    from (
        select
            *,
            median(gap_seconds) over (
                partition by gpu_id, preference order by sampled_at rows between 5 preceding and 5 following
            ) as usual_seconds
        from (
            select
                *,
                epoch(lead(sampled_at) over (partition by gpu_id, preference order by sampled_at))
                - epoch(sampled_at) as gap_seconds
            from several
        ) as followed
    ) as usual


),

seen_until as (

    select
        row_key,
        sampled_at,
        case preference
            when 2
                    then
                        max(case when preference <= 1 then sampled_at + to_seconds(covers_seconds) end)
                            over (partition by gpu_id order by sampled_at)
            when 3
                    then
                        max(case when preference <= 2 then sampled_at + to_seconds(covers_seconds) end)
                            over (partition by gpu_id order by sampled_at)
            when 4
                    then
                        max(case when preference <= 3 then sampled_at + to_seconds(covers_seconds) end)
                            over (partition by gpu_id order by sampled_at)
            end as better_until
    from looks

),

-- While a source that sees more looks at a GPU, the others add no time and no owner of their own.
needed as (

    select * from moments
    where
        row_key not in (
            select seen_until.row_key
            from seen_until
            where seen_until.sampled_at < seen_until.better_until
        )

),

intervals as (

    
    select
        * exclude (usual_seconds),
        case
            when gap_seconds is null then 0
            else least(gap_seconds, 3 * usual_seconds, 7200)
        end as covers_seconds
    from (
        select
            *,
            median(gap_seconds) over (
                partition by gpu_id order by sampled_at rows between 5 preceding and 5 following
            ) as usual_seconds
        from (
            select
                *,
                lead(energy_joules_total) over (partition by gpu_id order by sampled_at) as next_energy_joules_total,
                epoch(lead(sampled_at) over (partition by gpu_id order by sampled_at))
                - epoch(sampled_at) as gap_seconds
            from needed
        ) as followed
    ) as usual


),

timed as (

    select
        cleaned.*,
        coalesce(intervals.covers_seconds, 0) as covers_seconds,
        intervals.gap_seconds,
        intervals.next_energy_joules_total
    from cleaned
    left join intervals on cleaned.row_key = intervals.row_key

),

-- An exporter says of each MIG instance what its whole board draws: where the board has a row of its own that one
-- counts, else the instances share it.
shared_boards as (

    select
        coalesce(parent_gpu_id, gpu_id) as board_id,
        sampled_at,
        count(parent_gpu_id) as instances,
        count(*) > count(parent_gpu_id) as has_board
    from timed
    where coalesce(parent_gpu_id, gpu_id) in (select cleaned.parent_gpu_id from cleaned)
    group by all

),

measured as (

    select
        timed.*,
        case
            when timed.parent_gpu_id is null then 1
            when shared_boards.has_board then 0
            else 1.0 / shared_boards.instances
        end as board_share,
        -- A counter that went back, or grew faster than any board can draw, says nothing of what was drawn.
        case when timed.next_energy_joules_total >= timed.energy_joules_total and timed.gap_seconds > 0 then (timed.next_energy_joules_total - timed.energy_joules_total) / timed.gap_seconds end as counted_watts,
        -- What is in use has an owner, though the source names none.
        coalesce(timed.owner_kind, 'nobody') = 'nobody'
        and (
            coalesce(coalesce(timed.gpu_busy_ratio, timed.graphics_active_ratio) >= parameters.idle_gpu_ratio, false)
            or coalesce(timed.memory_used_bytes >= 1073741824, false)
            or coalesce(timed.processes > 0, false)
        ) as is_used_by_unknown
    from timed
    left join shared_boards
        on
            coalesce(timed.parent_gpu_id, timed.gpu_id) = shared_boards.board_id
            and timed.sampled_at = shared_boards.sampled_at
    cross join parameters

),

final as (

    select
        nodes.cluster_id,
        measured.node_id,
        measured.host_id,
        nodes.machine_key,
        measured.gpu_id,
        measured.gpu_index,
        measured.gpu_name,
        measured.pci_bus_id,
        measured.parent_gpu_id,
        measured.mig_profile,
        measured.sampled_at,
        measured.covers_seconds,
        measured.source,
        coalesce(measured.gpu_busy_ratio, measured.graphics_active_ratio) as busy_ratio,
        case
            when measured.gpu_busy_ratio is not null then 'utilisation'
            when measured.graphics_active_ratio is not null then 'graphics_engine'
        end as busy_basis,
        measured.memory_busy_ratio,
        measured.encoder_busy_ratio,
        measured.decoder_busy_ratio,
        measured.sm_active_ratio,
        measured.sm_occupancy_ratio,
        measured.tensor_active_ratio,
        measured.dram_active_ratio,
        measured.graphics_active_ratio,
        measured.memory_used_bytes,
        measured.memory_total_bytes,
        measured.power_watts,
        measured.power_limit_watts,
        measured.energy_joules_total,
        measured.temperature_celsius,
        measured.memory_temperature_celsius,
        measured.slowdown_temperature_celsius,
        measured.sm_clock_hertz,
        measured.memory_clock_hertz,
        measured.clock_event_reasons,
        measured.power_violation_seconds_total,
        measured.thermal_violation_seconds_total,
        measured.ecc_corrected_total,
        measured.ecc_uncorrected_total,
        measured.ecc_corrected_lifetime_total,
        measured.ecc_uncorrected_lifetime_total,
        measured.remapped_rows_correctable,
        measured.remapped_rows_uncorrectable,
        measured.last_xid,
        measured.pcie_rx_bytes_per_second,
        measured.pcie_tx_bytes_per_second,
        measured.pcie_replays_total,
        measured.pcie_link_generation,
        measured.pcie_link_width,
        measured.nvlink_rx_bytes_per_second,
        measured.nvlink_tx_bytes_per_second,
        measured.nvlink_errors_total,
        measured.nvlink_links_active,
        measured.processes,
        measured.has_remap_pending,
        measured.has_remap_failure,
        measured.board_share * measured.covers_seconds * case
            when measured.counted_watts <= 20000 then measured.counted_watts else measured.power_watts
        end as energy_joules,
        case
            when measured.counted_watts <= 20000 then 'counter' when measured.power_watts is not null then 'power'
        end as energy_basis,
        case
            when measured.counted_watts <= 20000
                then measured.board_share * (measured.gap_seconds - measured.covers_seconds) * measured.counted_watts
            else 0
        end as unseen_energy_joules,
        case
            when measured.is_used_by_unknown then 'unattributed' else coalesce(measured.owner_kind, 'unknown')
        end as owner_kind,
        measured.owner_id,
        case when measured.is_used_by_unknown then 'use' else measured.owner_evidence end as owner_evidence,
        cast(measured.implausible_values as bigint) as implausible_values
    from measured
    left join nodes on measured.node_id = nodes.node_id

)

select * from final

-- test: a_gpu_is_sampled_once_at_a_time() error
select gpu_id, sampled_at
from "lake"."main"."silver_gpu_samples"
group by gpu_id, sampled_at
having count(*) > 1

-- test: accepted_values_silver_gpu_samples_busy_basis__utilisation__graphics_engine(busy_basis) error
where busy_basis not in ('utilisation', 'graphics_engine')

-- test: accepted_values_silver_gpu_samples_energy_basis__counter__power(energy_basis) error
where energy_basis not in ('counter', 'power')

-- test: accepted_values_silver_gpu_samples_owner_kind__slurm__pod__container__trace__several__unattributed__nobody__unknown(owner_kind) error
where owner_kind not in ('slurm', 'pod', 'container', 'trace', 'several', 'unattributed', 'nobody', 'unknown')

-- test: accepted_values_silver_gpu_samples_source__collector__dcgm__nvidia_smi__rocm_smi(source) error
where source not in ('collector', 'dcgm', 'nvidia_smi', 'rocm_smi')

-- test: not_null_silver_gpu_samples_cluster_id(cluster_id) error
where cluster_id is null

-- test: not_null_silver_gpu_samples_covers_seconds(covers_seconds) error
where covers_seconds is null

-- test: not_null_silver_gpu_samples_gpu_id(gpu_id) error
where gpu_id is null

-- test: not_null_silver_gpu_samples_implausible_values(implausible_values) error
where implausible_values is null

-- test: not_null_silver_gpu_samples_machine_key(machine_key) error
where machine_key is null

-- test: not_null_silver_gpu_samples_node_id(node_id) error
where node_id is null

-- test: not_null_silver_gpu_samples_owner_kind(owner_kind) error
where owner_kind is null

-- test: not_null_silver_gpu_samples_sampled_at(sampled_at) error
where sampled_at is null

-- test: not_null_silver_gpu_samples_source(source) error
where source is null

-- test: not_null_silver_gpu_samples_unseen_energy_joules(unseen_energy_joules) error
where unseen_energy_joules is null

-- test: values_of_gpu_samples_can_be() error
where not (coalesce(covers_seconds, 0) >= 0 and coalesce(busy_ratio, 0) between 0 and 1 and coalesce(memory_busy_ratio, 0) between 0 and 1 and coalesce(encoder_busy_ratio, 0) between 0 and 1 and coalesce(decoder_busy_ratio, 0) between 0 and 1 and coalesce(sm_active_ratio, 0) between 0 and 1 and coalesce(sm_occupancy_ratio, 0) between 0 and 1 and coalesce(tensor_active_ratio, 0) between 0 and 1 and coalesce(dram_active_ratio, 0) between 0 and 1 and coalesce(graphics_active_ratio, 0) between 0 and 1 and coalesce(memory_used_bytes, 0) >= 0 and coalesce(memory_total_bytes, 0) >= 0 and coalesce(power_watts, 0) >= 0 and coalesce(power_limit_watts, 0) >= 0 and coalesce(energy_joules_total, 0) >= 0 and coalesce(temperature_celsius, 0) between -40 and 150 and coalesce(memory_temperature_celsius, 0) between -40 and 150 and coalesce(slowdown_temperature_celsius, 0) between -40 and 150 and coalesce(sm_clock_hertz, 0) >= 0 and coalesce(memory_clock_hertz, 0) >= 0 and coalesce(clock_event_reasons, 0) >= 0 and coalesce(power_violation_seconds_total, 0) >= 0 and coalesce(thermal_violation_seconds_total, 0) >= 0 and coalesce(ecc_corrected_total, 0) >= 0 and coalesce(ecc_uncorrected_total, 0) >= 0 and coalesce(ecc_corrected_lifetime_total, 0) >= 0 and coalesce(ecc_uncorrected_lifetime_total, 0) >= 0 and coalesce(remapped_rows_correctable, 0) >= 0 and coalesce(remapped_rows_uncorrectable, 0) >= 0 and coalesce(last_xid, 0) >= 0 and coalesce(pcie_rx_bytes_per_second, 0) >= 0 and coalesce(pcie_tx_bytes_per_second, 0) >= 0 and coalesce(pcie_replays_total, 0) >= 0 and coalesce(pcie_link_generation, 0) >= 0 and coalesce(pcie_link_width, 0) >= 0 and coalesce(nvlink_rx_bytes_per_second, 0) >= 0 and coalesce(nvlink_tx_bytes_per_second, 0) >= 0 and coalesce(nvlink_errors_total, 0) >= 0 and coalesce(nvlink_links_active, 0) >= 0 and coalesce(processes, 0) >= 0 and coalesce(energy_joules, 0) >= 0 and coalesce(unseen_energy_joules, 0) >= 0 and coalesce(implausible_values, 0) >= 0)
