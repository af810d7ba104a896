-- GPU samples of the collector. It reports users of a GPU and owners that it is allocated to: if it could list the
-- processes and there was neither, the GPU had no holder.

select
    node as node_id,
    host_id,
    gpu_uuid as gpu_id,
    parent_uuid as parent_gpu_id,
    gpu_index,
    gpu_name,
    pci_bus_id,
    mig_profile,
    {{ instant('ts_ms / 1000') }} as sampled_at,
    'collector' as source,
    1 as preference,
    {% for name, type in gpu_measures() -%}
        {% if name == 'last_xid' %}cast(null as double){% else %}cast({{ name }} as double){% endif %} as {{ name }},
    {% endfor -%}
    has_remap_pending,
    has_remap_failure,
    case
        when owner_kind in ('slurm', 'pod', 'container', 'trace', 'several', 'unattributed', 'nobody') then owner_kind
        when owner_kind is not null then 'unattributed'
        when processes = 0 then 'nobody'
    end as owner_kind,
    owner_id,
    owner_evidence
from {{ source('landed', 'bronze_gpu_metrics') }}
