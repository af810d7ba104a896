-- Whatever may own pods, as it was last seen, with the queue and the admission of its Kueue workload.

with owners as (

    select * from {{ ref('kubernetes_rows') }}
    where
        kind not in ('Pod', 'Node', 'Event', 'Snapshot', 'Workload', 'ResourceClaim', 'ResourceSlice')
        and uid is not null

),

latest as (

    {{ latest_objects('owners') }}

),

queued as (

    select * from {{ ref('kubernetes_rows') }}
    where kind = 'Workload' and owner_uid is not null

),

waits as (

    {{ last_waits('queued') }}

),

workloads as (

    select
        queued.cluster_id,
        queued.owner_uid,
        max(queued.queue) as queue,
        min(queued.admitted_at) as admitted_at,
        max(waits.wait_reason) as wait_reason
    from queued
    left join waits on queued.cluster_id = waits.cluster_id and queued.uid = waits.uid
    group by queued.cluster_id, queued.owner_uid

),

listings as (

    select * from {{ ref('kubernetes_listings') }}

),

final as (

    select
        latest.cluster_id,
        {{ surrogate_key(['latest.cluster_id', kubernetes_job_id('latest.namespace', 'latest.name', 'latest.uid')]) }}
            as job_key,
        latest.uid as owner_uid,
        latest.kind,
        latest.namespace as group_id,
        latest.name as owner_name,
        latest.owner_kind as parent_kind,
        latest.owner_name as parent_name,
        latest.owner_uid as parent_uid,
        latest."user" as user_id,
        coalesce(workloads.queue, latest.queue) as queue_id,
        latest.state,
        {{ kubernetes_job_end('latest.state', 'latest.reason') }} as status,
        latest."creationTimestamp" as submitted_at,
        coalesce(workloads.admitted_at, latest.admitted_at) as admitted_at,
        latest."startTime" as started_at,
        latest.ended_at,
        listings.next_at as gone_at,
        workloads.wait_reason,
        cast({{ finite('latest.instances') }} as bigint) as planned_pods,
        coalesce(latest.gpu_devices, 0) + coalesce(latest.gpu_shares, 0) as gpus,
        latest.cores,
        latest.memory_bytes
    from latest
    left join workloads on latest.cluster_id = workloads.cluster_id and latest.uid = workloads.owner_uid
    left join listings
        on
            latest.cluster_id = listings.cluster_id
            and latest.kind = listings.kind
            and coalesce(latest.namespace, '') = listings.listed_namespace
            and latest.seen_at = listings.seen_at

)

select * from final
