-- Snapshots of nvidia-smi, in our units. Their times are those of the node's clock, in the zone of its cluster.

with snapshots as (

    select
        *,
        {{ stem('file') }} as node_id
    from {{ source('landed', 'bronze_nvidia_smi') }}

),

nodes as (

    select * from {{ ref('silver_nodes') }}

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
            node_id || '/' || coalesce({{ pci_address('pci_bus_id') }}, 'gpu' || index),
            serial
        ) as board_id,
        coalesce({{ instant_of_local('timestamp', 'time_zone', "'UTC'") }}, file_at) as sampled_at
    from zoned

)

{% set fields = written_names('nvidia_smi') -%}

select
    node_id,
    cast(null as varchar) as host_id,
    board_id || coalesce('/' || mig_gpu_instance_id || '/' || mig_compute_instance_id, '') as gpu_id,
    case when mig_index is not null then board_id end as parent_gpu_id,
    {{ gpu_number('index') }} as gpu_index,
    name as gpu_name,
    pci_bus_id,
    cast(null as varchar) as mig_profile,
    sampled_at,
    'nvidia_smi' as source,
    3 as preference,
    {% for name, type in gpu_measures() -%}
        {% if name in fields -%}
            {{ printed_value(fields[name]) }} as {{ name }},
        {%- elif name == 'clock_event_reasons' -%}
            cast({{ hex_number('clocks_event_reasons_active') }} as double) as {{ name }},
        {%- else -%}
            cast(null as double) as {{ name }},
        {%- endif %}
    {% endfor -%}
    case lower(remapped_rows_pending) when 'yes' then true when 'no' then false end as has_remap_pending,
    case lower(remapped_rows_failure) when 'yes' then true when 'no' then false end as has_remap_failure,
    -- It lists processes and not who was given the GPU, and in a container not even those.
    case when {{ printed_number('processes') }} > 0 then 'unattributed' end as owner_kind,
    cast(null as varchar) as owner_id,
    case when {{ printed_number('processes') }} > 0 then 'process' end as owner_evidence
from identified
where board_id is not null
