-- Snapshots of rocm-smi, in our units. They say no time: it is that of their file.

with snapshots as (

    select
        *,
        {{ stem('file') }} as node_id
    from {{ source('landed', 'bronze_rocm_smi') }}

)

{% set fields = written_names('rocm_smi') -%}

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
            {{ printed_value(fields[name]) }} as {{ name }},
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
