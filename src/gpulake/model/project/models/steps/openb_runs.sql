-- Pods of Alibaba's GPU trace of 2023, in seconds from its begin. All lists of pods but one are samples of that one.

with pods as (

    {{ newest(
        chosen_list(source('landed', 'bronze_openb_pods'), 'openb_pod_list_default'),
        surrogate_key(['name']),
        'deletion_time desc nulls last, scheduled_time desc nulls last, ' ~ status_rank(openb_status('pod_phase'))
    ) }}

),

measured as (

    select
        *,
        coalesce({{ finite('num_gpu') }}, 0) * coalesce({{ finite('gpu_milli') }}, 1000) / 1000 as gpus
    from pods

)

select
    'openb' as cluster_id,
    name as job_id,
    cast(1 as bigint) as run,
    cast(null as varchar) as user_id,
    cast(null as varchar) as group_id,
    cast(null as varchar) as workload,
    qos as account_id,
    gpu_spec as requested_gpu_type,
    {{ openb_status('pod_phase') }} as status,
    {{ instant(finite('creation_time')) }} as submitted_at,
    {{ instant(finite('creation_time')) }} as launched_at,
    {{ instant(finite('scheduled_time')) }} as started_at,
    {{ instant(finite('deletion_time')) }} as ended_at,
    cast(1 as bigint) as planned_instances,
    {{ finite('cpu_milli') }} / 1000 as requested_cores,
    cast({{ finite('memory_mib') }} * 1048576 as bigint) as requested_memory_bytes,
    gpus as requested_gpus,
    gpus,
    case when gpus > 0 and gpu_spec not like '%|%' then gpu_spec end as gpu_type
from measured
