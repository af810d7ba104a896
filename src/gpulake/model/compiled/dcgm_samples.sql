-- Kept: what dcgm-exporter says of GPUs and MIG instances, a row for each and time, in our units.

with samples as not materialized (

    select * from __dbt__cte__prometheus_samples
    where metric like 'DCGM\_FI\_%' escape '\'

),

-- Few series have many samples: their labels are parsed once.
series as (

    select
        labels,
        node_id,
        nullif(json_extract_string(labels, '$."UUID"'), '') as uuid,
        nullif(json_extract_string(labels, '$."GPU_I_ID"'), '') as instance_id,
        nullif(json_extract_string(labels, '$."GPU_I_PROFILE"'), '') as mig_profile,
        json_extract_string(labels, '$."gpu"') as gpu,
        json_extract_string(labels, '$."modelName"') as gpu_name,
        json_extract_string(labels, '$."pci_bus_id"') as pci_bus_id,
        nullif(json_extract_string(labels, '$."hpc_job"'), '') as slurm_job,
        nullif(json_extract_string(labels, '$."exported_pod"'), '') as exported_pod,
        nullif(json_extract_string(labels, '$."pod"'), '') as scraped_pod,
        coalesce(
            nullif(json_extract_string(labels, '$."exported_namespace"'), ''),
            nullif(json_extract_string(labels, '$."namespace"'), '')
        ) as pod_namespace
    from samples
    group by labels, node_id

),

-- A Prometheus that finds its targets through Kubernetes writes the exporter's own pod into `pod`, and moves what the
-- exporter says to `exported_pod`. Only where it never does so, and the name is not an exporter's, `pod` holds the GPU.
relabelled as (

    select distinct scraped_pod
    from series
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
        coalesce(uuid, node_id || '/gpu' || gpu) as board_id,
        row_number() over () as series_number
    from series

),

-- An exporter that names holders on a node proves that a GPU which it gives none has none. Others do not look.
looking as (

    select distinct node_id
    from owned
    where coalesce(pod, slurm_job) is not null

),

-- By the number of their series: grouping millions of rows by texts takes several times as long.
readings as (

    select
        max(case when metric in ('DCGM_FI_DEV_GPU_UTIL') then value * 0.01 end) as gpu_busy_ratio,
        max(case when metric in ('DCGM_FI_DEV_MEM_COPY_UTIL') then value * 0.01 end) as memory_busy_ratio,
        max(case when metric in ('DCGM_FI_DEV_ENC_UTIL') then value * 0.01 end) as encoder_busy_ratio,
        max(case when metric in ('DCGM_FI_DEV_DEC_UTIL') then value * 0.01 end) as decoder_busy_ratio,
        max(case when metric in ('DCGM_FI_PROF_GR_ENGINE_ACTIVE') then value * 1 end) as graphics_active_ratio,
        max(case when metric in ('DCGM_FI_PROF_SM_ACTIVE') then value * 1 end) as sm_active_ratio,
        max(case when metric in ('DCGM_FI_PROF_SM_OCCUPANCY') then value * 1 end) as sm_occupancy_ratio,
        max(case when metric in ('DCGM_FI_PROF_PIPE_TENSOR_ACTIVE') then value * 1 end) as tensor_active_ratio,
        max(case when metric in ('DCGM_FI_PROF_DRAM_ACTIVE') then value * 1 end) as dram_active_ratio,
        max(case when metric in ('DCGM_FI_DEV_FB_USED') then value * 1048576.0 end) as memory_used_bytes,
        max(case when metric in ('DCGM_FI_DEV_FB_FREE') then value * 1048576.0 end) as memory_free_bytes,
        max(case when metric in ('DCGM_FI_DEV_FB_TOTAL') then value * 1048576.0 end) as memory_total_bytes,
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
        max(case when metric in ('DCGM_FI_DEV_ROW_REMAP_PENDING') then value * 1 end) as has_remap_pending,
        max(case when metric in ('DCGM_FI_DEV_ROW_REMAP_FAILURE') then value * 1 end) as has_remap_failure,
        max(case when metric in ('DCGM_FI_PROF_PCIE_RX_BYTES') then value * 1 end) as pcie_rx_bytes_per_second,
        max(case when metric in ('DCGM_FI_PROF_PCIE_TX_BYTES') then value * 1 end) as pcie_tx_bytes_per_second,
        max(case when metric in ('DCGM_FI_DEV_PCIE_REPLAY_COUNTER') then value * 1 end) as pcie_replays_total,
        max(case when metric in ('DCGM_FI_DEV_PCIE_LINK_GEN') then value * 1 end) as pcie_link_generation,
        max(case when metric in ('DCGM_FI_DEV_PCIE_LINK_WIDTH') then value * 1 end) as pcie_link_width,
        max(case when metric in ('DCGM_FI_PROF_NVLINK_RX_BYTES') then value * 1 end) as nvlink_rx_bytes_per_second,
        max(case when metric in ('DCGM_FI_PROF_NVLINK_TX_BYTES') then value * 1 end) as nvlink_tx_bytes_per_second,
        max(case when metric in ('DCGM_FI_DEV_FB_RESERVED') then value * 1048576.0 end) as memory_reserved_bytes,
        max(case when metric in ('DCGM_FI_DEV_XID_ERRORS') then value * 1 end) as last_xid,
        owned.series_number,
        samples.sampled_at
    from samples
    inner join owned
        on samples.labels is not distinct from owned.labels and samples.node_id is not distinct from owned.node_id
    where owned.board_id is not null
    group by owned.series_number, samples.sampled_at

)

-- A GPU that several hold at once, and one whose holder changes, has several series.
select
    max(owned.node_id) as node_id,
    cast(null as varchar) as host_id,
    owned.board_id || coalesce('/' || owned.instance_id, '') as gpu_id,
    case when owned.instance_id is not null then owned.board_id end as parent_gpu_id,
    case
        when try_cast(nullif(regexp_extract(max(owned.gpu), '^\(?(-?[0-9]+(\.[0-9]+)?)', 1), '') as double) between 0 and 2147483631 then cast(try_cast(nullif(regexp_extract(max(owned.gpu), '^\(?(-?[0-9]+(\.[0-9]+)?)', 1), '') as double) as bigint)
    end as gpu_index,
    max(owned.gpu_name) as gpu_name,
    max(owned.pci_bus_id) as pci_bus_id,
    max(owned.mig_profile) as mig_profile,
    readings.sampled_at,
    'dcgm' as source,
    2 as preference,
    max(readings.gpu_busy_ratio) as gpu_busy_ratio,
    max(readings.memory_busy_ratio) as memory_busy_ratio,
    max(readings.encoder_busy_ratio) as encoder_busy_ratio,
    max(readings.decoder_busy_ratio) as decoder_busy_ratio,
    max(readings.sm_active_ratio) as sm_active_ratio,
    max(readings.sm_occupancy_ratio) as sm_occupancy_ratio,
    max(readings.tensor_active_ratio) as tensor_active_ratio,
    max(readings.dram_active_ratio) as dram_active_ratio,
    max(readings.graphics_active_ratio) as graphics_active_ratio,
    max(readings.memory_used_bytes) as memory_used_bytes,
    coalesce(
                max(readings.memory_total_bytes),
                max(readings.memory_used_bytes) + max(readings.memory_free_bytes)
                + coalesce(max(readings.memory_reserved_bytes), 0)
            ) as memory_total_bytes,
    max(readings.power_watts) as power_watts,
    max(readings.power_limit_watts) as power_limit_watts,
    max(readings.energy_joules_total) as energy_joules_total,
    max(readings.temperature_celsius) as temperature_celsius,
    max(readings.memory_temperature_celsius) as memory_temperature_celsius,
    max(readings.slowdown_temperature_celsius) as slowdown_temperature_celsius,
    max(readings.sm_clock_hertz) as sm_clock_hertz,
    max(readings.memory_clock_hertz) as memory_clock_hertz,
    max(readings.clock_event_reasons) as clock_event_reasons,
    max(readings.power_violation_seconds_total) as power_violation_seconds_total,
    max(readings.thermal_violation_seconds_total) as thermal_violation_seconds_total,
    max(readings.ecc_corrected_total) as ecc_corrected_total,
    max(readings.ecc_uncorrected_total) as ecc_uncorrected_total,
    max(readings.ecc_corrected_lifetime_total) as ecc_corrected_lifetime_total,
    max(readings.ecc_uncorrected_lifetime_total) as ecc_uncorrected_lifetime_total,
    max(readings.remapped_rows_correctable) as remapped_rows_correctable,
    max(readings.remapped_rows_uncorrectable) as remapped_rows_uncorrectable,
    max(readings.last_xid) as last_xid,
    max(readings.pcie_rx_bytes_per_second) as pcie_rx_bytes_per_second,
    max(readings.pcie_tx_bytes_per_second) as pcie_tx_bytes_per_second,
    max(readings.pcie_replays_total) as pcie_replays_total,
    max(readings.pcie_link_generation) as pcie_link_generation,
    max(readings.pcie_link_width) as pcie_link_width,
    max(readings.nvlink_rx_bytes_per_second) as nvlink_rx_bytes_per_second,
    max(readings.nvlink_tx_bytes_per_second) as nvlink_tx_bytes_per_second,
    cast(null as double) as nvlink_errors_total,
    cast(null as double) as nvlink_links_active,
    cast(null as double) as processes,
    max(readings.has_remap_pending) > 0 as has_remap_pending,
    max(readings.has_remap_failure) > 0 as has_remap_failure,
    case
        when (
        coalesce(min(owned.slurm_job) < max(owned.slurm_job), false) or
        coalesce(min(owned.pod) < max(owned.pod), false) or
        (max(owned.slurm_job) is not null and max(owned.pod) is not null)
    ) then 'several'
        when max(owned.slurm_job) is not null then 'slurm'
        when max(owned.pod) is not null then 'pod'
        when max(owned.node_id) in (select looking.node_id from looking) then 'nobody'
    end as owner_kind,
    case
        when not (
        coalesce(min(owned.slurm_job) < max(owned.slurm_job), false) or
        coalesce(min(owned.pod) < max(owned.pod), false) or
        (max(owned.slurm_job) is not null and max(owned.pod) is not null)
    )
            then coalesce(max(owned.slurm_job), max(coalesce(owned.pod_namespace || '/', '') || owned.pod))
    end as owner_id,
    case when coalesce(max(owned.slurm_job), max(owned.pod)) is not null then 'environment' end as owner_evidence
from readings
inner join owned on readings.series_number = owned.series_number
group by owned.board_id, owned.instance_id, readings.sampled_at
