-- Snapshots of rocm-smi, in our units. They say no time: it is that of their file.

with snapshots as (

    select
        *,
        {{ stem('file') }} as node_id
    from {{ source('landed', 'bronze_rocm_smi') }}

)

{% set fields = {
    'gpu_busy_ratio': ['gpu_use', '0.01'],
    'memory_busy_ratio': ['coalesce(gpu_memory_read_write_activity, gpu_memory_use)', '0.01'],
    'memory_used_bytes': ['vram_total_used_memory_b', '1'],
    'memory_total_bytes': ['vram_total_memory_b', '1'],
    'power_watts': ['coalesce(current_socket_graphics_package_power_w, average_graphics_package_power_w)', '1'],
    'power_limit_watts': ['max_graphics_package_power_w', '1'],
    'energy_joules_total': ['accumulated_energy_uj', '1e-6'],
    'temperature_celsius': ['coalesce(temperature_sensor_junction_c, temperature_sensor_edge_c)', '1'],
    'memory_temperature_celsius': ['temperature_sensor_memory_c', '1'],
    'sm_clock_hertz': ['sclk_clock_speed', '1e6'],
    'memory_clock_hertz': ['mclk_clock_speed', '1e6'],
    'pcie_replays_total': ['pcie_replay_count', '1']
} -%}

select
    node_id,
    cast(null as varchar) as host_id,
    coalesce(
        case when unique_id like '0x%' then unique_id end,
        node_id || '/' || coalesce({{ pci_address('pci_bus') }}, card)
    ) as gpu_id,
    cast(null as varchar) as parent_gpu_id,
    {{ gpu_number("replace(card, 'card', '')") }} as gpu_index,
    coalesce(device_name, card_series, card_model) as gpu_name,
    pci_bus as pci_bus_id,
    cast(null as varchar) as mig_profile,
    file_at as sampled_at,
    'rocm_smi' as source,
    4 as preference,
    {% for name, type in gpu_measures() -%}
        {% if name in fields -%}
            {{ printed_number(fields[name][0]) }} * {{ fields[name][1] }} as {{ name }},
        {%- else -%}
            cast(null as double) as {{ name }},
        {%- endif %}
    {% endfor -%}
    cast(null as boolean) as has_remap_pending,
    cast(null as boolean) as has_remap_failure,
    cast(null as varchar) as owner_kind,
    cast(null as varchar) as owner_id,
    cast(null as varchar) as owner_evidence
from snapshots
