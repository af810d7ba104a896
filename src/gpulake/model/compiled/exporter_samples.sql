-- Kept: what other exporters than DCGM's say of GPUs, a row for each and time, in our units: nvidia_gpu_exporter,
-- AMD's device-metrics-exporter, and OpenTelemetry's names.

with samples as (

    select
        *,
        case
            when metric like 'nvidia\_smi\_%' escape '\' then 'nvidia_exporter'
            when metric like 'hw\_%' escape '\' then 'otel_exporter'
            else 'amd_exporter'
        end as source,
        -- nvidia_gpu_exporter leaves out the beginning of the UUID.
        coalesce(
            case
                when metric like 'nvidia\_smi\_%' escape '\' and json_extract_string(labels, '$."uuid"') not like 'GPU-%'
                    then 'GPU-' || json_extract_string(labels, '$."uuid"')
            end,
            nullif(json_extract_string(labels, '$."uuid"'), ''),
            nullif(json_extract_string(labels, '$."gpu_uuid"'), ''),
            nullif(json_extract_string(labels, '$."hw_id"'), '')
        ) as uuid,
        coalesce(json_extract_string(labels, '$."gpu_id"'), json_extract_string(labels, '$."index"')) as number,
        nullif(json_extract_string(labels, '$."job_id"'), '') as slurm_job,
        nullif(json_extract_string(labels, '$."exported_pod"'), '') as exported_pod,
        case
            when json_extract_string(labels, '$."pod"') not like '%exporter%'
                then nullif(json_extract_string(labels, '$."pod"'), '')
        end as scraped_pod
    from __dbt__cte__prometheus_samples
    where
        metric in (
            'amd_gpu_ecc_correct_total',
            'amd_gpu_ecc_uncorrect_total',
            'amd_gpu_energy_consumed',
            'amd_gpu_gfx_activity',
            'amd_gpu_junction_temperature',
            'amd_gpu_memory_temperature',
            'amd_gpu_package_power',
            'amd_gpu_total_vram',
            'amd_gpu_umc_activity',
            'amd_gpu_used_vram',
            'gpu_average_package_power',
            'gpu_ecc_correct_total',
            'gpu_ecc_uncorrect_total',
            'gpu_edge_temperature',
            'gpu_energy_consumed',
            'gpu_gfx_activity',
            'gpu_junction_temperature',
            'gpu_memory_temperature',
            'gpu_package_power',
            'gpu_power_usage',
            'gpu_total_vram',
            'gpu_umc_activity',
            'gpu_used_vram',
            'hw_energy_joules_total',
            'hw_gpu_energy_joules_total',
            'hw_gpu_memory_limit_bytes',
            'hw_gpu_memory_usage_bytes',
            'hw_gpu_power_watts',
            'hw_gpu_temperature_celsius',
            'hw_gpu_utilization',
            'hw_gpu_utilization_ratio',
            'hw_power_watts',
            'hw_temperature_celsius',
            'nvidia_smi_clocks_current_memory_clock_hz',
            'nvidia_smi_clocks_current_sm_clock_hz',
            'nvidia_smi_ecc_errors_corrected_aggregate_total',
            'nvidia_smi_ecc_errors_corrected_volatile_total',
            'nvidia_smi_ecc_errors_uncorrected_aggregate_total',
            'nvidia_smi_ecc_errors_uncorrected_volatile_total',
            'nvidia_smi_enforced_power_limit_watts',
            'nvidia_smi_memory_total_bytes',
            'nvidia_smi_memory_used_bytes',
            'nvidia_smi_pcie_link_gen_current',
            'nvidia_smi_pcie_link_width_current',
            'nvidia_smi_power_draw_instant_watts',
            'nvidia_smi_power_draw_watts',
            'nvidia_smi_power_limit_watts',
            'nvidia_smi_temperature_gpu',
            'nvidia_smi_temperature_memory',
            'nvidia_smi_utilization_decoder_ratio',
            'nvidia_smi_utilization_encoder_ratio',
            'nvidia_smi_utilization_gpu_ratio',
            'nvidia_smi_utilization_memory_ratio',
            'nvidia_smi_gpu_info'
        )
        -- OpenTelemetry has the same names for other hardware, other work and other sensors.
        and coalesce(json_extract_string(labels, '$."hw_type"'), 'gpu') = 'gpu'
        and coalesce(json_extract_string(labels, '$."hw_gpu_task"'), 'general') = 'general'
        and coalesce(json_extract_string(labels, '$."hw_sensor_location"'), 'gpu') = 'gpu'

),

named as (

    select
        *,
        coalesce(exported_pod, scraped_pod) as pod,
        coalesce(
            nullif(json_extract_string(labels, '$."exported_namespace"'), ''),
            nullif(json_extract_string(labels, '$."namespace"'), '')
        ) as pod_namespace,
        coalesce(uuid, node_id || '/gpu' || number) as gpu_id
    from samples

)

select
    max(node_id) as node_id,
    cast(null as varchar) as host_id,
    gpu_id,
    cast(null as varchar) as parent_gpu_id,
    case
        when try_cast(nullif(regexp_extract(max(number), '^\(?(-?[0-9]+(\.[0-9]+)?)', 1), '') as double) between 0 and 2147483631 then cast(try_cast(nullif(regexp_extract(max(number), '^\(?(-?[0-9]+(\.[0-9]+)?)', 1), '') as double) as bigint)
    end as gpu_index,
    max(
        coalesce(
            json_extract_string(labels, '$."name"'),
            json_extract_string(labels, '$."card_series"'),
            json_extract_string(labels, '$."hw_model"')
        )
    ) as gpu_name,
    cast(null as varchar) as pci_bus_id,
    cast(null as varchar) as mig_profile,
    sampled_at,
    source,
    3 as preference,
    coalesce(
            max(case when metric in ('gpu_gfx_activity', 'amd_gpu_gfx_activity') then value * 0.01 end),
            max(case when metric in ('nvidia_smi_utilization_gpu_ratio') then value * 1 end),
            max(case when metric in ('hw_gpu_utilization_ratio', 'hw_gpu_utilization') then value * 1 end),
            cast(null as double)
        ) as gpu_busy_ratio,
    coalesce(
            max(case when metric in ('gpu_umc_activity', 'amd_gpu_umc_activity') then value * 0.01 end),
            max(case when metric in ('nvidia_smi_utilization_memory_ratio') then value * 1 end),
            cast(null as double)
        ) as memory_busy_ratio,
    coalesce(
            max(case when metric in ('nvidia_smi_utilization_encoder_ratio') then value * 1 end),
            cast(null as double)
        ) as encoder_busy_ratio,
    coalesce(
            max(case when metric in ('nvidia_smi_utilization_decoder_ratio') then value * 1 end),
            cast(null as double)
        ) as decoder_busy_ratio,
    coalesce(
            cast(null as double)
        ) as sm_active_ratio,
    coalesce(
            cast(null as double)
        ) as sm_occupancy_ratio,
    coalesce(
            cast(null as double)
        ) as tensor_active_ratio,
    coalesce(
            cast(null as double)
        ) as dram_active_ratio,
    coalesce(
            cast(null as double)
        ) as graphics_active_ratio,
    coalesce(
            max(case when metric in ('gpu_used_vram', 'amd_gpu_used_vram') then value * 1048576.0 end),
            max(case when metric in ('nvidia_smi_memory_used_bytes') then value * 1 end),
            max(case when metric in ('hw_gpu_memory_usage_bytes') then value * 1 end),
            cast(null as double)
        ) as memory_used_bytes,
    coalesce(
            max(case when metric in ('gpu_total_vram', 'amd_gpu_total_vram') then value * 1048576.0 end),
            max(case when metric in ('nvidia_smi_memory_total_bytes') then value * 1 end),
            max(case when metric in ('hw_gpu_memory_limit_bytes') then value * 1 end),
            cast(null as double)
        ) as memory_total_bytes,
    coalesce(
            max(case when metric in ('gpu_package_power', 'amd_gpu_package_power', 'gpu_average_package_power', 'gpu_power_usage') then value * 1 end),
            max(case when metric in ('nvidia_smi_power_draw_watts', 'nvidia_smi_power_draw_instant_watts') then value * 1 end),
            max(case when metric in ('hw_power_watts', 'hw_gpu_power_watts') then value * 1 end),
            cast(null as double)
        ) as power_watts,
    coalesce(
            max(case when metric in ('nvidia_smi_enforced_power_limit_watts', 'nvidia_smi_power_limit_watts') then value * 1 end),
            cast(null as double)
        ) as power_limit_watts,
    coalesce(
            max(case when metric in ('gpu_energy_consumed', 'amd_gpu_energy_consumed') then value * 1e-06 end),
            max(case when metric in ('hw_energy_joules_total', 'hw_gpu_energy_joules_total') then value * 1 end),
            cast(null as double)
        ) as energy_joules_total,
    coalesce(
            max(case when metric in ('gpu_junction_temperature', 'amd_gpu_junction_temperature', 'gpu_edge_temperature') then value * 1 end),
            max(case when metric in ('nvidia_smi_temperature_gpu') then value * 1 end),
            max(case when metric in ('hw_temperature_celsius', 'hw_gpu_temperature_celsius') then value * 1 end),
            cast(null as double)
        ) as temperature_celsius,
    coalesce(
            max(case when metric in ('gpu_memory_temperature', 'amd_gpu_memory_temperature') then value * 1 end),
            max(case when metric in ('nvidia_smi_temperature_memory') then value * 1 end),
            cast(null as double)
        ) as memory_temperature_celsius,
    coalesce(
            cast(null as double)
        ) as slowdown_temperature_celsius,
    coalesce(
            max(case when metric in ('nvidia_smi_clocks_current_sm_clock_hz') then value * 1 end),
            cast(null as double)
        ) as sm_clock_hertz,
    coalesce(
            max(case when metric in ('nvidia_smi_clocks_current_memory_clock_hz') then value * 1 end),
            cast(null as double)
        ) as memory_clock_hertz,
    coalesce(
            cast(null as double)
        ) as clock_event_reasons,
    coalesce(
            cast(null as double)
        ) as power_violation_seconds_total,
    coalesce(
            cast(null as double)
        ) as thermal_violation_seconds_total,
    coalesce(
            max(case when metric in ('gpu_ecc_correct_total', 'amd_gpu_ecc_correct_total') then value * 1 end),
            max(case when metric in ('nvidia_smi_ecc_errors_corrected_volatile_total') then value * 1 end),
            cast(null as double)
        ) as ecc_corrected_total,
    coalesce(
            max(case when metric in ('gpu_ecc_uncorrect_total', 'amd_gpu_ecc_uncorrect_total') then value * 1 end),
            max(case when metric in ('nvidia_smi_ecc_errors_uncorrected_volatile_total') then value * 1 end),
            cast(null as double)
        ) as ecc_uncorrected_total,
    coalesce(
            max(case when metric in ('nvidia_smi_ecc_errors_corrected_aggregate_total') then value * 1 end),
            cast(null as double)
        ) as ecc_corrected_lifetime_total,
    coalesce(
            max(case when metric in ('nvidia_smi_ecc_errors_uncorrected_aggregate_total') then value * 1 end),
            cast(null as double)
        ) as ecc_uncorrected_lifetime_total,
    coalesce(
            cast(null as double)
        ) as remapped_rows_correctable,
    coalesce(
            cast(null as double)
        ) as remapped_rows_uncorrectable,
    coalesce(
            cast(null as double)
        ) as last_xid,
    coalesce(
            cast(null as double)
        ) as pcie_rx_bytes_per_second,
    coalesce(
            cast(null as double)
        ) as pcie_tx_bytes_per_second,
    coalesce(
            cast(null as double)
        ) as pcie_replays_total,
    coalesce(
            max(case when metric in ('nvidia_smi_pcie_link_gen_current') then value * 1 end),
            cast(null as double)
        ) as pcie_link_generation,
    coalesce(
            max(case when metric in ('nvidia_smi_pcie_link_width_current') then value * 1 end),
            cast(null as double)
        ) as pcie_link_width,
    coalesce(
            cast(null as double)
        ) as nvlink_rx_bytes_per_second,
    coalesce(
            cast(null as double)
        ) as nvlink_tx_bytes_per_second,
    coalesce(
            cast(null as double)
        ) as nvlink_errors_total,
    coalesce(
            cast(null as double)
        ) as nvlink_links_active,
    coalesce(
            cast(null as double)
        ) as processes,
    cast(null as boolean) as has_remap_pending,
    cast(null as boolean) as has_remap_failure,
    case
        when (
        coalesce(min(slurm_job) < max(slurm_job), false) or
        coalesce(min(pod) < max(pod), false) or
        (max(slurm_job) is not null and max(pod) is not null)
    ) then 'several'
        when max(slurm_job) is not null then 'slurm'
        when max(pod) is not null then 'pod'
    end as owner_kind,
    case
        when not (
        coalesce(min(slurm_job) < max(slurm_job), false) or
        coalesce(min(pod) < max(pod), false) or
        (max(slurm_job) is not null and max(pod) is not null)
    )
            then coalesce(max(slurm_job), max(coalesce(pod_namespace || '/', '') || pod))
    end as owner_id,
    case when coalesce(max(slurm_job), max(pod)) is not null then 'environment' end as owner_evidence
from named
where gpu_id is not null
group by gpu_id, source, sampled_at
having max(case when metric <> 'nvidia_smi_gpu_info' then 1 end) = 1
