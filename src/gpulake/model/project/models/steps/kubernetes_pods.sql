-- Pods as they were last seen: the job that each belongs to, how much of GPUs it holds, and how and when it ended. The
-- job is the highest owner that is one, else the pod itself. Daemons and services without GPUs are no work.

with seen as (

    select * from {{ ref('kubernetes_rows') }}
    where kind = 'Pod' and uid is not null

),

latest as (

    {{ latest_objects('seen') }}

),

owners as (

    select * from {{ ref('silver_pod_owners') }}

),

listings as (

    select * from {{ ref('kubernetes_listings') }}

),

nodes as (

    select * from {{ ref('kubernetes_nodes') }}

),

-- GPUs by dynamic resource allocation. A claim is freed or gone once its pod ended: the most that was ever seen counts.
reserved as (

    select
        cluster_id,
        uid,
        gpu_shares / {{ count_of_items('held_by') }} as gpus,
        {{ each_item('held_by') }} as pod_uid
    from {{ ref('kubernetes_rows') }}
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

    {{ last_waits('seen') }}

),

-- What events say of the end of a pod.
stops as (

    select
        cluster_id,
        object_uid,
        max(reason) filter (where {{ kubernetes_stop('reason') }} is not null) as reason,
        max(last_at) as stopped_at
    from {{ ref('kubernetes_rows') }}
    where
        kind = 'Event'
        and object_kind = 'Pod'
        and (reason = 'Killing' or {{ kubernetes_stop('reason') }} is not null)
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
            when {{ is_kubernetes_job('second.parent_kind') }} then second.parent_uid
            when {{ is_kubernetes_job('first.parent_kind') }} then first.parent_uid
            when {{ is_kubernetes_job('latest.owner_kind') }} then latest.owner_uid
            else latest.uid
        end as job_uid,
        case
            when {{ is_kubernetes_job('second.parent_kind') }} then second.parent_name
            when {{ is_kubernetes_job('first.parent_kind') }} then first.parent_name
            when {{ is_kubernetes_job('latest.owner_kind') }} then latest.owner_name
            else latest.name
        end as job_name,
        {{ is_kubernetes_job('latest.owner_kind') }} as is_of_job,
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
                        {{ kubernetes_stop('reason') }},
                        {{ kubernetes_stop('stop_reason') }},
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
                        {{ kubernetes_stop('reason') }},
                        {{ kubernetes_stop('stop_reason') }},
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
                                then {{ earliest(['"deletionTimestamp"', 'gone_at']) }}
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
    {{ kubernetes_job_id('namespace', 'job_name', 'job_uid') }} as job_id,
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
                    else coalesce({{ halfway('alive_at', 'gone_at') }}, gone_at)
                end
    end as inferred_ended_at,
    held_gpus as gpus,
    cores,
    memory_bytes,
    case when held_gpus > 0 then node_gpu_type end as gpu_type,
    wait_reason,
    wait_message
from judged
