-- Pods as they were last seen: the job that each belongs to, how much of GPUs it holds, and how and when it ended. The
-- job is the highest owner that is one, else the pod itself. Daemons and services without GPUs are no work.

with seen as (

    select * from __dbt__cte__kubernetes_rows
    where kind = 'Pod' and uid is not null

),

latest as (

    
    select seen.*
    from seen
    inner join (
        select
            cluster_id,
            uid,
            max(seen_at) as seen_at
        from seen
        group by cluster_id, uid
    ) as last_seen
        on
            seen.cluster_id = last_seen.cluster_id
            and seen.uid = last_seen.uid
            and seen.seen_at = last_seen.seen_at
    qualify
        row_number() over (
            partition by seen.cluster_id, seen.uid order by seen
        ) = 1


),

owners as (

    select * from "lake"."main"."silver_pod_owners"

),

listings as (

    select * from __dbt__cte__kubernetes_listings

),

nodes as (

    select * from __dbt__cte__kubernetes_nodes

),

-- GPUs by dynamic resource allocation. A claim is freed or gone once its pod ended: the most that was ever seen counts.
reserved as (

    select
        cluster_id,
        uid,
        gpu_shares / len(string_split(held_by, ',')) as gpus,
        unnest(string_split(held_by, ',')) as pod_uid
    from __dbt__cte__kubernetes_rows
    where kind = 'ResourceClaim' and held_by is not null and gpu_shares > 0

),

claims as (

    select
        cluster_id,
        pod_uid,
        uid,
        max(gpus) as gpus
    from reserved
    group by cluster_id, pod_uid, uid

),

claimed as (

    select
        cluster_id,
        pod_uid,
        sum(gpus) as gpus
    from claims
    group by cluster_id, pod_uid

),

lives as (

    select
        cluster_id,
        uid,
        max(case when state not in ('Succeeded', 'Failed') then seen_at end) as alive_at,
        min(case when state in ('Succeeded', 'Failed') then seen_at end) as dead_at
    from seen
    group by cluster_id, uid

),

waits as (

    
    select
        cluster_id,
        uid,
        owner_uid,
        case
        when regexp_matches(waiting_message, 'Insufficient [a-z0-9]')
            then 'Insufficient ' || nullif(regexp_extract(waiting_message, 'Insufficient ([a-z0-9./-]*[a-z0-9])', 1), '')
        when waiting_message like '%quota%' then 'Quota'
        when waiting_message like '%untolerated taint%' then 'Taint'
        when waiting_message like '%affinity%' or waiting_message like '%selector%' then 'NodeAffinity'
        else waiting_reason
    end as wait_reason,
        waiting_message as wait_message
    from seen
    where waiting_reason is not null
    qualify
        row_number() over (partition by cluster_id, uid order by seen_at desc, waiting_message asc, waiting_reason asc) = 1


),

-- What events say of the end of a pod.
stops as (

    select
        cluster_id,
        object_uid,
        max(reason) filter (where case
        when reason = 'DeadlineExceeded' then 'timeout'
        when
            reason in (
                'Evicted', 'EvictionByEvictionAPI', 'Preempted', 'Preempting', 'PreemptionByScheduler',
                'PreemptionByKubeScheduler', 'TerminationByKubelet'
            )
            then 'interrupted'
        when
            reason in (
                'DeletionByPodGC', 'DeletionByTaintManager', 'NodeLost', 'NodeShutdown', 'Shutdown', 'TaintManagerEviction',
                'Terminated'
            )
            then 'node_fail'
    end is not null) as reason,
        max(last_at) as stopped_at
    from __dbt__cte__kubernetes_rows
    where
        kind = 'Event'
        and object_kind = 'Pod'
        and (reason = 'Killing' or case
        when reason = 'DeadlineExceeded' then 'timeout'
        when
            reason in (
                'Evicted', 'EvictionByEvictionAPI', 'Preempted', 'Preempting', 'PreemptionByScheduler',
                'PreemptionByKubeScheduler', 'TerminationByKubelet'
            )
            then 'interrupted'
        when
            reason in (
                'DeletionByPodGC', 'DeletionByTaintManager', 'NodeLost', 'NodeShutdown', 'Shutdown', 'TaintManagerEviction',
                'Terminated'
            )
            then 'node_fail'
    end is not null)
    group by cluster_id, object_uid

),

owned as (

    select
        latest.*,
        lives.alive_at,
        coalesce(lives.dead_at, listings.next_at) as gone_at,
        stops.reason as stop_reason,
        stops.stopped_at,
        case
            when coalesce(
        (second.parent_kind like '%Job' and second.parent_kind != 'CronJob')
        or second.parent_kind in ('AppWrapper', 'JobSet', 'PipelineRun', 'RayCluster', 'SparkApplication', 'TaskRun', 'Workflow'),
        false
    ) then second.parent_uid
            when coalesce(
        (first.parent_kind like '%Job' and first.parent_kind != 'CronJob')
        or first.parent_kind in ('AppWrapper', 'JobSet', 'PipelineRun', 'RayCluster', 'SparkApplication', 'TaskRun', 'Workflow'),
        false
    ) then first.parent_uid
            when coalesce(
        (latest.owner_kind like '%Job' and latest.owner_kind != 'CronJob')
        or latest.owner_kind in ('AppWrapper', 'JobSet', 'PipelineRun', 'RayCluster', 'SparkApplication', 'TaskRun', 'Workflow'),
        false
    ) then latest.owner_uid
            else latest.uid
        end as job_uid,
        case
            when coalesce(
        (second.parent_kind like '%Job' and second.parent_kind != 'CronJob')
        or second.parent_kind in ('AppWrapper', 'JobSet', 'PipelineRun', 'RayCluster', 'SparkApplication', 'TaskRun', 'Workflow'),
        false
    ) then second.parent_name
            when coalesce(
        (first.parent_kind like '%Job' and first.parent_kind != 'CronJob')
        or first.parent_kind in ('AppWrapper', 'JobSet', 'PipelineRun', 'RayCluster', 'SparkApplication', 'TaskRun', 'Workflow'),
        false
    ) then first.parent_name
            when coalesce(
        (latest.owner_kind like '%Job' and latest.owner_kind != 'CronJob')
        or latest.owner_kind in ('AppWrapper', 'JobSet', 'PipelineRun', 'RayCluster', 'SparkApplication', 'TaskRun', 'Workflow'),
        false
    ) then latest.owner_name
            else latest.name
        end as job_name,
        coalesce(
        (latest.owner_kind like '%Job' and latest.owner_kind != 'CronJob')
        or latest.owner_kind in ('AppWrapper', 'JobSet', 'PipelineRun', 'RayCluster', 'SparkApplication', 'TaskRun', 'Workflow'),
        false
    ) as is_of_job,
        latest.owner_kind = 'Job' and coalesce(first.planned_pods, 1) = 1 as is_alone_in_owner,
        coalesce(latest.gpu_devices, 0) * coalesce(nodes.device_ratio, 1)
        + coalesce(latest.gpu_shares, 0)
        + coalesce(claimed.gpus, 0) as held_gpus,
        nodes.gpu_type as node_gpu_type,
        waits.wait_reason,
        waits.wait_message
    from latest
    inner join lives on latest.cluster_id = lives.cluster_id and latest.uid = lives.uid
    left join owners as first on latest.cluster_id = first.cluster_id and latest.owner_uid = first.owner_uid
    left join owners as second on first.cluster_id = second.cluster_id and first.parent_uid = second.owner_uid
    left join stops on latest.cluster_id = stops.cluster_id and latest.uid = stops.object_uid
    left join waits on latest.cluster_id = waits.cluster_id and latest.uid = waits.uid
    left join claimed on latest.cluster_id = claimed.cluster_id and latest.uid = claimed.pod_uid
    left join nodes on latest.cluster_id = nodes.cluster_id and latest.node = nodes.machine_id
    left join listings
        on
            latest.cluster_id = listings.cluster_id
            and listings.kind = 'Pod'
            and coalesce(latest.namespace, '') = listings.listed_namespace
            and latest.seen_at = listings.seen_at

),

told as (

    select
        owned.*,
        jobs.ended_at as job_ended_at,
        jobs.status as job_end,
        coalesce(owned."startTime", owned.scheduled_at, owned."container_startedAt") as started_at,
        owned.state in ('Succeeded', 'Failed') as is_final,
        case
            when owned.stopped_at > owned.alive_at and owned.stopped_at <= owned.gone_at then owned.stopped_at
        end as event_at
    from owned
    left join owners as jobs on owned.cluster_id = jobs.cluster_id and owned.job_uid = jobs.owner_uid
    where
        owned.is_of_job
        or owned.held_gpus > 0
        or owned.owner_kind is null

),

judged as (

    select
        *,
        case
            when state = 'Succeeded' then 'succeeded'
            when state = 'Failed'
                then
                    coalesce(
                        case
        when reason = 'DeadlineExceeded' then 'timeout'
        when
            reason in (
                'Evicted', 'EvictionByEvictionAPI', 'Preempted', 'Preempting', 'PreemptionByScheduler',
                'PreemptionByKubeScheduler', 'TerminationByKubelet'
            )
            then 'interrupted'
        when
            reason in (
                'DeletionByPodGC', 'DeletionByTaintManager', 'NodeLost', 'NodeShutdown', 'Shutdown', 'TaintManagerEviction',
                'Terminated'
            )
            then 'node_fail'
    end,
                        case
        when stop_reason = 'DeadlineExceeded' then 'timeout'
        when
            stop_reason in (
                'Evicted', 'EvictionByEvictionAPI', 'Preempted', 'Preempting', 'PreemptionByScheduler',
                'PreemptionByKubeScheduler', 'TerminationByKubelet'
            )
            then 'interrupted'
        when
            stop_reason in (
                'DeletionByPodGC', 'DeletionByTaintManager', 'NodeLost', 'NodeShutdown', 'Shutdown', 'TaintManagerEviction',
                'Terminated'
            )
            then 'node_fail'
    end,
                        case
                            when "deletionTimestamp" is not null and "container_exitCode" in (137, 143)
                                then 'cancelled'
                        end,
                        'failed'
                    )
            when gone_at is not null and started_at is null then 'cancelled'
            when gone_at is not null
                then
                    coalesce(
                        case
        when reason = 'DeadlineExceeded' then 'timeout'
        when
            reason in (
                'Evicted', 'EvictionByEvictionAPI', 'Preempted', 'Preempting', 'PreemptionByScheduler',
                'PreemptionByKubeScheduler', 'TerminationByKubelet'
            )
            then 'interrupted'
        when
            reason in (
                'DeletionByPodGC', 'DeletionByTaintManager', 'NodeLost', 'NodeShutdown', 'Shutdown', 'TaintManagerEviction',
                'Terminated'
            )
            then 'node_fail'
    end,
                        case
        when stop_reason = 'DeadlineExceeded' then 'timeout'
        when
            stop_reason in (
                'Evicted', 'EvictionByEvictionAPI', 'Preempted', 'Preempting', 'PreemptionByScheduler',
                'PreemptionByKubeScheduler', 'TerminationByKubelet'
            )
            then 'interrupted'
        when
            stop_reason in (
                'DeletionByPodGC', 'DeletionByTaintManager', 'NodeLost', 'NodeShutdown', 'Shutdown', 'TaintManagerEviction',
                'Terminated'
            )
            then 'node_fail'
    end,
                        case when state = 'Unknown' then 'node_fail' end,
                        -- Its job is over: it was stopped with the others of a gang that failed.
                        case
                            when job_end in ('failed', 'timeout') and job_ended_at <= gone_at then 'interrupted'
                            else job_end
                        end,
                        'cancelled'
                    )
            when started_at is not null then 'running'
            else 'waiting'
        end as status,
        case
            when is_final then coalesce(ended_at, "container_finishedAt", event_at)
            when gone_at is not null
                then
                    coalesce(
                        event_at,
                        -- The end of the grace period: pods mostly end before.
                        case
                            when "deletionTimestamp" is not null
                                then least("deletionTimestamp", gone_at)
                        end
                    )
        end as told_ended_at
    from told

)

select
    cluster_id,
    uid,
    namespace,
    name,
    node,
    job_uid,
    namespace || '/' || job_name || '/' || left(job_uid, 8) as job_id,
    coalesce(role, 'pod') as role,
    coalesce(
        coalesce(role, '') || '/' || index,
        case when is_alone_in_owner then 'pod' end,
        case when is_of_job then name end,
        uid
    ) as instance,
    "user" as user_id,
    queue,
    status,
    "creationTimestamp" as submitted_at,
    started_at,
    told_ended_at as ended_at,
    -- Seen in one snapshot and not in the next, it ended in between: with its job, if that did, else half-way.
    case
        when gone_at is not null
            then
                case
                    when job_ended_at > alive_at and job_ended_at <= gone_at then job_ended_at
                    else coalesce(to_timestamp(((epoch_us(alive_at) / 1e6) + (epoch_us(gone_at) / 1e6)) / 2), gone_at)
                end
    end as inferred_ended_at,
    held_gpus as gpus,
    cores,
    memory_bytes,
    case when held_gpus > 0 then node_gpu_type end as gpu_type,
    wait_reason,
    wait_message
from judged
