-- Jobs of Kubernetes in the words of all sources: a job runs once, however often its pods are made anew. One that Kueue
-- holds back has no pods yet.

with pods as (

    select
        * replace (pod_started_at as started_at),
        coalesce(ended_at, inferred_ended_at) as over_at
    from {{ ref('silver_pod_runs') }}
    where is_last_run

),

-- Of the pods in one place of a job, the last.
instances as (

    select * from pods
    qualify
        row_number() over (
            partition by cluster_id, instance_key
            order by coalesce(started_at, over_at) desc nulls first, submitted_at desc, pod_uid asc
        ) = 1

),

sizes as (

    select
        cluster_id,
        job_id,
        min({{ status_rank('status') }}) filter (where not {{ has_ended('status') }}) as open_rank,
        min({{ status_rank('status') }}) filter (where status != 'succeeded' and {{ has_ended('status') }}) as bad_rank,
        count(*) as instances,
        sum(gpus) as gpus,
        sum(cores) as cores,
        sum(memory_bytes) as memory_bytes
    from instances
    group by cluster_id, job_id

),

spans as (

    select
        cluster_id,
        job_id,
        max(job_uid) as job_uid,
        max(group_id) as group_id,
        max(user_id) as user_id,
        min(submitted_at) as submitted_at,
        min(started_at) as started_at,
        max(over_at) as ended_at,
        max(gpu_type) as gpu_type
    from pods
    group by cluster_id, job_id

),

owners as (

    select * from {{ ref('silver_pod_owners') }}

),

started as (

    select
        spans.cluster_id,
        spans.job_id,
        spans.group_id,
        coalesce(owners.user_id, spans.user_id) as user_id,
        spans.group_id as account_id,
        coalesce(
            owners.status,
            {{ status_of_rank('sizes.open_rank') }},
            {{ status_of_rank('sizes.bad_rank') }},
            'succeeded'
        ) as status,
        {{ earliest(['owners.submitted_at', 'spans.submitted_at']) }} as submitted_at,
        owners.admitted_at,
        spans.started_at,
        coalesce(owners.ended_at, spans.ended_at) as ended_at,
        greatest(coalesce(owners.planned_pods, 1), sizes.instances) as planned_instances,
        sizes.instances,
        sizes.gpus,
        sizes.cores,
        sizes.memory_bytes,
        spans.gpu_type
    from spans
    inner join sizes on spans.cluster_id = sizes.cluster_id and spans.job_id = sizes.job_id
    left join owners on spans.cluster_id = owners.cluster_id and spans.job_uid = owners.owner_uid

),

podless as (

    select
        owners.cluster_id,
        {{ kubernetes_job_id('owners.group_id', 'owners.owner_name', 'owners.owner_uid') }} as job_id,
        owners.group_id,
        owners.user_id,
        owners.group_id as account_id,
        coalesce(
            owners.status,
            case
                when owners.gone_at is not null then 'cancelled'
                when owners.started_at is not null then 'running'
                else 'waiting'
            end
        ) as status,
        owners.submitted_at,
        owners.admitted_at,
        owners.started_at,
        coalesce(owners.ended_at, owners.gone_at) as ended_at,
        greatest(coalesce(owners.planned_pods, 1), 1) as planned_instances,
        greatest(coalesce(owners.planned_pods, 1), 1) as instances,
        owners.gpus,
        owners.cores,
        owners.memory_bytes,
        cast(null as varchar) as gpu_type
    from owners
    where
        {{ is_kubernetes_job('owners.kind') }}
        and not {{ is_kubernetes_job('owners.parent_kind') }}
        and {{ surrogate_key(['owners.cluster_id', 'owners.owner_uid']) }} not in (
            select {{ surrogate_key(['spans.cluster_id', 'spans.job_uid']) }} from spans
        )

),

jobs as (

    select * from started
    union all
    select * from podless

)

select
    cluster_id,
    job_id,
    cast(1 as bigint) as run,
    user_id,
    group_id,
    cast(null as varchar) as workload,
    account_id,
    cast(null as varchar) as requested_gpu_type,
    status,
    submitted_at,
    coalesce(admitted_at, submitted_at) as launched_at,
    started_at,
    case when {{ has_ended('status') }} then ended_at end as ended_at,
    planned_instances,
    cores / instances as requested_cores,
    cast(memory_bytes / instances as bigint) as requested_memory_bytes,
    gpus / instances as requested_gpus,
    gpus,
    gpu_type
from jobs
