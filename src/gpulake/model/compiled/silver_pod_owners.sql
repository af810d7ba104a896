-- Whatever may own pods, as it was last seen, with the queue and the admission of its Kueue workload.

with owners as (

    select * from __dbt__cte__kubernetes_rows
    where
        kind not in ('Pod', 'Node', 'Event', 'Snapshot', 'Workload', 'ResourceClaim', 'ResourceSlice')
        and uid is not null

),

latest as (

    
    select owners.*
    from owners
    inner join (
        select
            cluster_id,
            uid,
            max(seen_at) as seen_at
        from owners
        group by cluster_id, uid
    ) as last_seen
        on
            owners.cluster_id = last_seen.cluster_id
            and owners.uid = last_seen.uid
            and owners.seen_at = last_seen.seen_at
    qualify
        row_number() over (
            partition by owners.cluster_id, owners.uid order by owners
        ) = 1


),

queued as (

    select * from __dbt__cte__kubernetes_rows
    where kind = 'Workload' and owner_uid is not null

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
    from queued
    where waiting_reason is not null
    qualify
        row_number() over (partition by cluster_id, uid order by seen_at desc, waiting_message asc, waiting_reason asc) = 1


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

    select * from __dbt__cte__kubernetes_listings

),

final as (

    select
        latest.cluster_id,
        cast(hash(latest.cluster_id, latest.namespace || '/' || latest.name || '/' || left(latest.uid, 8)) >> 1 as bigint)
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
        case
        when latest.state in ('Complete', 'Completed', 'Succeeded', 'Finished', 'SUCCEEDED') then 'succeeded'
        when latest.state in ('Failed', 'FAILED') and latest.reason = 'DeadlineExceeded' then 'timeout'
        when latest.state in ('Failed', 'FAILED') then 'failed'
        when latest.state in ('Aborted', 'STOPPED', 'Terminated') then 'cancelled'
    end as status,
        latest."creationTimestamp" as submitted_at,
        coalesce(workloads.admitted_at, latest.admitted_at) as admitted_at,
        latest."startTime" as started_at,
        latest.ended_at,
        listings.next_at as gone_at,
        workloads.wait_reason,
        cast(case when isfinite(latest.instances) then latest.instances end as bigint) as planned_pods,
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

-- test: an_owner_has_one_row() error
select cluster_id, owner_uid
from "lake"."main"."silver_pod_owners"
group by cluster_id, owner_uid
having count(*) > 1

-- test: not_null_silver_pod_owners_cluster_id(cluster_id) error
where cluster_id is null

-- test: not_null_silver_pod_owners_kind(kind) error
where kind is null

-- test: not_null_silver_pod_owners_owner_name(owner_name) error
where owner_name is null

-- test: not_null_silver_pod_owners_owner_uid(owner_uid) error
where owner_uid is null
