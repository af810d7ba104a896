-- Kept: what dcgm-exporter says of GPUs and MIG instances, a row for each and time, in our units.

with samples as not materialized (

    select * from {{ ref('prometheus_samples') }}
    where metric like 'DCGM\_FI\_%' escape '\'

),

-- Few series have many samples: their labels are parsed once.
series as (

    select
        labels,
        node_id,
        nullif({{ json_text('labels', 'UUID') }}, '') as uuid,
        nullif({{ json_text('labels', 'GPU_I_ID') }}, '') as instance_id,
        nullif({{ json_text('labels', 'GPU_I_PROFILE') }}, '') as mig_profile,
        {{ json_text('labels', 'gpu') }} as gpu,
        {{ json_text('labels', 'modelName') }} as gpu_name,
        {{ json_text('labels', 'pci_bus_id') }} as pci_bus_id,
        nullif({{ json_text('labels', 'hpc_job') }}, '') as slurm_job,
        nullif({{ json_text('labels', 'exported_pod') }}, '') as exported_pod,
        nullif({{ json_text('labels', 'pod') }}, '') as scraped_pod,
        coalesce(
            nullif({{ json_text('labels', 'exported_namespace') }}, ''),
            nullif({{ json_text('labels', 'namespace') }}, '')
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

{% set fields = written_names('dcgm') -%}

-- By the number of their series: grouping millions of rows by texts takes several times as long.
readings as (

    select
        {% for name in fields -%}
            {{ sample_of(fields[name]) }} as {{ name }},
        {% endfor -%}
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
    {{ gpu_number("max(owned.gpu)") }} as gpu_index,
    max(owned.gpu_name) as gpu_name,
    max(owned.pci_bus_id) as pci_bus_id,
    max(owned.mig_profile) as mig_profile,
    readings.sampled_at,
    'dcgm' as source,
    2 as preference,
    {% for name, type in gpu_measures() -%}
        {% if name == 'memory_total_bytes' -%}
            coalesce(
                max(readings.memory_total_bytes),
                max(readings.memory_used_bytes) + max(readings.memory_free_bytes)
                + coalesce(max(readings.memory_reserved_bytes), 0)
            ) as {{ name }},
        {%- elif name in fields -%}
            max(readings.{{ name }}) as {{ name }},
        {%- else -%}
            cast(null as double) as {{ name }},
        {%- endif %}
    {% endfor -%}
    max(readings.has_remap_pending) > 0 as has_remap_pending,
    max(readings.has_remap_failure) > 0 as has_remap_failure,
    case
        when {{ are_several(['owned.slurm_job', 'owned.pod']) }} then 'several'
        when max(owned.slurm_job) is not null then 'slurm'
        when max(owned.pod) is not null then 'pod'
        when max(owned.node_id) in (select looking.node_id from looking) then 'nobody'
    end as owner_kind,
    case
        when not {{ are_several(['owned.slurm_job', 'owned.pod']) }}
            then coalesce(max(owned.slurm_job), max(coalesce(owned.pod_namespace || '/', '') || owned.pod))
    end as owner_id,
    case when coalesce(max(owned.slurm_job), max(owned.pod)) is not null then 'environment' end as owner_evidence
from readings
inner join owned on readings.series_number = owned.series_number
group by owned.board_id, owned.instance_id, readings.sampled_at
