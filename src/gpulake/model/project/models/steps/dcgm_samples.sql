-- What dcgm-exporter says of GPUs and MIG instances, a row for each and time, in our units.

with samples as (

    select
        *,
        {{ json_text('labels', 'UUID') }} as uuid,
        nullif({{ json_text('labels', 'GPU_I_ID') }}, '') as instance_id,
        nullif({{ json_text('labels', 'pod') }}, '') as pod
    from {{ ref('prometheus_samples') }}
    where metric like 'DCGM\_FI\_%' escape '\'

),

-- An exporter that names pods on a node proves that a GPU which it gives none has none. Others do not look.
looking as (

    select distinct node_id
    from samples
    where pod is not null

),

named as (

    select
        *,
        coalesce(nullif(uuid, ''), node_id || '/gpu' || {{ json_text('labels', 'gpu') }}) as board_id
    from samples

)

{% set fields = {
    'gpu_busy_ratio': ['DCGM_FI_DEV_GPU_UTIL', '0.01'],
    'memory_busy_ratio': ['DCGM_FI_DEV_MEM_COPY_UTIL', '0.01'],
    'encoder_busy_ratio': ['DCGM_FI_DEV_ENC_UTIL', '0.01'],
    'decoder_busy_ratio': ['DCGM_FI_DEV_DEC_UTIL', '0.01'],
    'sm_active_ratio': ['DCGM_FI_PROF_SM_ACTIVE', '1'],
    'sm_occupancy_ratio': ['DCGM_FI_PROF_SM_OCCUPANCY', '1'],
    'tensor_active_ratio': ['DCGM_FI_PROF_PIPE_TENSOR_ACTIVE', '1'],
    'dram_active_ratio': ['DCGM_FI_PROF_DRAM_ACTIVE', '1'],
    'graphics_active_ratio': ['DCGM_FI_PROF_GR_ENGINE_ACTIVE', '1'],
    'memory_used_bytes': ['DCGM_FI_DEV_FB_USED', '1048576'],
    'power_watts': ['DCGM_FI_DEV_POWER_USAGE', '1'],
    'power_limit_watts': ['DCGM_FI_DEV_POWER_MGMT_LIMIT', '1'],
    'energy_joules_total': ['DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION', '0.001'],
    'temperature_celsius': ['DCGM_FI_DEV_GPU_TEMP', '1'],
    'memory_temperature_celsius': ['DCGM_FI_DEV_MEMORY_TEMP', '1'],
    'slowdown_temperature_celsius': ['DCGM_FI_DEV_SLOWDOWN_TEMP', '1'],
    'sm_clock_hertz': ['DCGM_FI_DEV_SM_CLOCK', '1e6'],
    'memory_clock_hertz': ['DCGM_FI_DEV_MEM_CLOCK', '1e6'],
    'power_violation_seconds_total': ['DCGM_FI_DEV_POWER_VIOLATION', '1e-9'],
    'thermal_violation_seconds_total': ['DCGM_FI_DEV_THERMAL_VIOLATION', '1e-9'],
    'remapped_rows_correctable': ['DCGM_FI_DEV_CORRECTABLE_REMAPPED_ROWS', '1'],
    'remapped_rows_uncorrectable': ['DCGM_FI_DEV_UNCORRECTABLE_REMAPPED_ROWS', '1'],
    'last_xid': ['DCGM_FI_DEV_XID_ERRORS', '1'],
    'pcie_rx_bytes_per_second': ['DCGM_FI_PROF_PCIE_RX_BYTES', '1'],
    'pcie_tx_bytes_per_second': ['DCGM_FI_PROF_PCIE_TX_BYTES', '1'],
    'pcie_replays_total': ['DCGM_FI_DEV_PCIE_REPLAY_COUNTER', '1'],
    'pcie_link_generation': ['DCGM_FI_DEV_PCIE_LINK_GEN', '1'],
    'pcie_link_width': ['DCGM_FI_DEV_PCIE_LINK_WIDTH', '1'],
    'nvlink_rx_bytes_per_second': ['DCGM_FI_PROF_NVLINK_RX_BYTES', '1'],
    'nvlink_tx_bytes_per_second': ['DCGM_FI_PROF_NVLINK_TX_BYTES', '1'],
    'ecc_corrected_total': ['DCGM_FI_DEV_ECC_SBE_VOL_TOTAL', '1'],
    'ecc_uncorrected_total': ['DCGM_FI_DEV_ECC_DBE_VOL_TOTAL', '1'],
    'ecc_corrected_lifetime_total': ['DCGM_FI_DEV_ECC_SBE_AGG_TOTAL', '1'],
    'ecc_uncorrected_lifetime_total': ['DCGM_FI_DEV_ECC_DBE_AGG_TOTAL', '1']
} -%}

select
    max(node_id) as node_id,
    cast(null as varchar) as host_id,
    board_id || coalesce('/' || instance_id, '') as gpu_id,
    case when instance_id is not null then board_id end as parent_gpu_id,
    {{ gpu_number("max(" ~ json_text('labels', 'gpu') ~ ")") }} as gpu_index,
    max({{ json_text('labels', 'modelName') }}) as gpu_name,
    max({{ json_text('labels', 'pci_bus_id') }}) as pci_bus_id,
    max(nullif({{ json_text('labels', 'GPU_I_PROFILE') }}, '')) as mig_profile,
    sampled_at,
    'dcgm' as source,
    2 as preference,
    {% for name, type in gpu_measures() -%}
        {% if name in fields -%}
            max(case when metric = '{{ fields[name][0] }}' then value * {{ fields[name][1] }} end) as {{ name }},
        {%- elif name == 'memory_total_bytes' -%}
            coalesce(
                max(case when metric = 'DCGM_FI_DEV_FB_TOTAL' then value * 1048576 end),
                max(case when metric = 'DCGM_FI_DEV_FB_USED' then value * 1048576 end)
                + max(case when metric = 'DCGM_FI_DEV_FB_FREE' then value * 1048576 end)
                + coalesce(max(case when metric = 'DCGM_FI_DEV_FB_RESERVED' then value * 1048576 end), 0)
            ) as {{ name }},
        {%- elif name == 'clock_event_reasons' -%}
            max(
                case
                    when metric in ('DCGM_FI_DEV_CLOCK_THROTTLE_REASONS', 'DCGM_FI_DEV_CLOCKS_EVENT_REASONS') then value
                end
            ) as {{ name }},
        {%- else -%}
            cast(null as double) as {{ name }},
        {%- endif %}
    {% endfor -%}
    max(case when metric = 'DCGM_FI_DEV_ROW_REMAP_PENDING' then value end) > 0 as has_remap_pending,
    max(case when metric = 'DCGM_FI_DEV_ROW_REMAP_FAILURE' then value end) > 0 as has_remap_failure,
    case
        when max(pod) is not null then 'pod'
        when max(node_id) in (select looking.node_id from looking) then 'nobody'
    end as owner_kind,
    max(nullif({{ json_text('labels', 'namespace') }}, '') || '/' || pod) as owner_id,
    case when max(pod) is not null then 'environment' end as owner_evidence
from named
where board_id is not null
group by board_id, instance_id, sampled_at
