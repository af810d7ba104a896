-- What dcgm-exporter says of GPUs and MIG instances, a row for each and time, in our units.

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
        coalesce(uuid, node_id || '/gpu' || gpu) as board_id
    from series

),

-- An exporter that names holders on a node proves that a GPU which it gives none has none. Others do not look.
looking as (

    select distinct node_id
    from owned
    where coalesce(pod, slurm_job) is not null

),

named as not materialized (

    select
        owned.*,
        samples.metric,
        samples.value,
        samples.sampled_at
    from samples
    inner join owned
        on samples.labels is not distinct from owned.labels and samples.node_id is not distinct from owned.node_id

)

{% set fields = written_names('dcgm') -%}

select
    max(node_id) as node_id,
    cast(null as varchar) as host_id,
    board_id || coalesce('/' || instance_id, '') as gpu_id,
    case when instance_id is not null then board_id end as parent_gpu_id,
    {{ gpu_number("max(gpu)") }} as gpu_index,
    max(gpu_name) as gpu_name,
    max(pci_bus_id) as pci_bus_id,
    max(mig_profile) as mig_profile,
    sampled_at,
    'dcgm' as source,
    2 as preference,
    {% for name, type in gpu_measures() -%}
        {% if name == 'memory_total_bytes' -%}
            coalesce(
                {{ sample_of(fields.memory_total_bytes) }},
                {{ sample_of(fields.memory_used_bytes) }} + {{ sample_of(fields.memory_free_bytes) }}
                + coalesce({{ sample_of(fields.memory_reserved_bytes) }}, 0)
            ) as {{ name }},
        {%- elif name in fields -%}
            {{ sample_of(fields[name]) }} as {{ name }},
        {%- else -%}
            cast(null as double) as {{ name }},
        {%- endif %}
    {% endfor -%}
    {{ sample_of(fields.has_remap_pending) }} > 0 as has_remap_pending,
    {{ sample_of(fields.has_remap_failure) }} > 0 as has_remap_failure,
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
