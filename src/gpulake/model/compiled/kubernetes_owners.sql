-- Whatever may own pods, as it was last seen, with the queue and the admission of its Kueue workload.

with owners as (

    select * from __dbt__cte__kubernetes_rows
    where kind not in ('Pod', 'Node', 'Event', 'Snapshot', 'Workload') and uid is not null

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

workloads as (

    select
        cluster_id,
        owner_uid,
        max(queue) as queue,
        min(admitted_at) as admitted_at
    from __dbt__cte__kubernetes_rows
    where kind = 'Workload' and owner_uid is not null
    group by cluster_id, owner_uid

),

listings as (

    select * from __dbt__cte__kubernetes_listings

)

select
    latest.* replace (
        coalesce(workloads.queue, latest.queue) as queue,
        coalesce(workloads.admitted_at, latest.admitted_at) as admitted_at
    ),
    listings.next_at as gone_at
from latest
left join workloads on latest.cluster_id = workloads.cluster_id and latest.uid = workloads.owner_uid
left join listings
    on
        latest.cluster_id = listings.cluster_id
        and latest.kind = listings.kind
        and coalesce(latest.namespace, '') = listings.listed_namespace
        and latest.seen_at = listings.seen_at
