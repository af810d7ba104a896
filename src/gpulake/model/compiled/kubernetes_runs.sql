-- Jobs of Kubernetes in the words of all sources: a job runs once, however often its pods are made anew. One that Kueue
-- holds back has no pods yet.

with pods as (

    select
        * replace (pod_started_at as started_at),
        coalesce(ended_at, inferred_ended_at) as over_at
    from "lake"."main"."silver_pod_runs"
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
        min(case status when 'succeeded' then 1 when 'failed' then 2 when 'node_fail' then 3 when 'timeout' then 4 when 'interrupted' then 5 when 'cancelled' then 6 when 'running' then 7 when 'waiting' then 8 when 'unknown' then 9 end) filter (where not status not in ('running', 'waiting')) as open_rank,
        min(case status when 'succeeded' then 1 when 'failed' then 2 when 'node_fail' then 3 when 'timeout' then 4 when 'interrupted' then 5 when 'cancelled' then 6 when 'running' then 7 when 'waiting' then 8 when 'unknown' then 9 end) filter (where status != 'succeeded' and status not in ('running', 'waiting')) as bad_rank,
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

    select * from "lake"."main"."silver_pod_owners"

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
            case sizes.open_rank when 1 then 'succeeded' when 2 then 'failed' when 3 then 'node_fail' when 4 then 'timeout' when 5 then 'interrupted' when 6 then 'cancelled' when 7 then 'running' when 8 then 'waiting' when 9 then 'unknown' end,
            case sizes.bad_rank when 1 then 'succeeded' when 2 then 'failed' when 3 then 'node_fail' when 4 then 'timeout' when 5 then 'interrupted' when 6 then 'cancelled' when 7 then 'running' when 8 then 'waiting' when 9 then 'unknown' end,
            'succeeded'
        ) as status,
        least(owners.submitted_at, spans.submitted_at) as submitted_at,
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
        owners.group_id || '/' || owners.owner_name || '/' || left(owners.owner_uid, 8) as job_id,
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
        coalesce(
        (owners.kind like '%Job' and owners.kind != 'CronJob')
        or owners.kind in ('AppWrapper', 'JobSet', 'PipelineRun', 'RayCluster', 'SparkApplication', 'TaskRun', 'Workflow'),
        false
    )
        and not coalesce(
        (owners.parent_kind like '%Job' and owners.parent_kind != 'CronJob')
        or owners.parent_kind in ('AppWrapper', 'JobSet', 'PipelineRun', 'RayCluster', 'SparkApplication', 'TaskRun', 'Workflow'),
        false
    )
        and cast(hash(owners.cluster_id, owners.owner_uid) >> 1 as bigint) not in (
            select cast(hash(spans.cluster_id, spans.job_uid) >> 1 as bigint) from spans
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
    case when status not in ('running', 'waiting') then ended_at end as ended_at,
    planned_instances,
    cores / instances as requested_cores,
    cast(memory_bytes / instances as bigint) as requested_memory_bytes,
    gpus / instances as requested_gpus,
    gpus,
    gpu_type
from jobs
