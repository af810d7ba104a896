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
                when metric like 'nvidia\_smi\_%' escape '\' and {{ json_text('labels', 'uuid') }} not like 'GPU-%'
                    then 'GPU-' || {{ json_text('labels', 'uuid') }}
            end,
            nullif({{ json_text('labels', 'uuid') }}, ''),
            nullif({{ json_text('labels', 'gpu_uuid') }}, ''),
            nullif({{ json_text('labels', 'hw_id') }}, '')
        ) as uuid,
        coalesce({{ json_text('labels', 'gpu_id') }}, {{ json_text('labels', 'index') }}) as number,
        nullif({{ json_text('labels', 'job_id') }}, '') as slurm_job,
        nullif({{ json_text('labels', 'exported_pod') }}, '') as exported_pod,
        case
            when {{ json_text('labels', 'pod') }} not like '%exporter%'
                then nullif({{ json_text('labels', 'pod') }}, '')
        end as scraped_pod
    from {{ ref('prometheus_samples') }}
    where
        metric in (
            {% for name in exporter_metrics() -%}
                '{{ name }}',
            {% endfor -%}
            'nvidia_smi_gpu_info'
        )
        -- OpenTelemetry has the same names for other hardware, other work and other sensors.
        and coalesce({{ json_text('labels', 'hw_type') }}, 'gpu') = 'gpu'
        and coalesce({{ json_text('labels', 'hw_gpu_task') }}, 'general') = 'general'
        and coalesce({{ json_text('labels', 'hw_sensor_location') }}, 'gpu') = 'gpu'

),

named as (

    select
        *,
        coalesce(exported_pod, scraped_pod) as pod,
        coalesce(
            nullif({{ json_text('labels', 'exported_namespace') }}, ''),
            nullif({{ json_text('labels', 'namespace') }}, '')
        ) as pod_namespace,
        coalesce(uuid, node_id || '/gpu' || number) as gpu_id
    from samples

)

select
    max(node_id) as node_id,
    cast(null as varchar) as host_id,
    gpu_id,
    cast(null as varchar) as parent_gpu_id,
    {{ gpu_number("max(number)") }} as gpu_index,
    max(
        coalesce(
            {{ json_text('labels', 'name') }},
            {{ json_text('labels', 'card_series') }},
            {{ json_text('labels', 'hw_model') }}
        )
    ) as gpu_name,
    cast(null as varchar) as pci_bus_id,
    cast(null as varchar) as mig_profile,
    sampled_at,
    source,
    3 as preference,
    {% for name, type in gpu_measures() -%}
        coalesce(
            {% for exporter in exporters() if name in written_names(exporter) -%}
                {{ sample_of(written_names(exporter)[name]) }},
            {% endfor -%}
            cast(null as double)
        ) as {{ name }},
    {% endfor -%}
    cast(null as boolean) as has_remap_pending,
    cast(null as boolean) as has_remap_failure,
    case
        when {{ are_several(['slurm_job', 'pod']) }} then 'several'
        when max(slurm_job) is not null then 'slurm'
        when max(pod) is not null then 'pod'
    end as owner_kind,
    case
        when not {{ are_several(['slurm_job', 'pod']) }}
            then coalesce(max(slurm_job), max(coalesce(pod_namespace || '/', '') || pod))
    end as owner_id,
    case when coalesce(max(slurm_job), max(pod)) is not null then 'environment' end as owner_evidence
from named
where gpu_id is not null
group by gpu_id, source, sampled_at
having max(case when metric <> 'nvidia_smi_gpu_info' then 1 end) = 1
