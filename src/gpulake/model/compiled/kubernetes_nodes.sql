-- Nodes of Kubernetes as they were last seen. One that was made anew under its name is the same machine.

with seen as (

    select
        *,
        coalesce(nullif(uid, ''), name) as own_uid
    from __dbt__cte__kubernetes_rows
    where kind = 'Node'

),

known as (

    select * from "landed"."main"."known_clusters"

),

spans as (

    select
        cluster_id,
        name,
        max(seen_at) as seen_at,
        min("creationTimestamp") as made_at
    from seen
    group by cluster_id, name

),

latest as (

    select
        seen.*,
        spans.made_at,
        coalesce(known.time_zone, 'UTC') as time_zone
    from seen
    inner join spans
        on seen.cluster_id = spans.cluster_id and seen.name = spans.name and seen.seen_at = spans.seen_at
    left join known on seen.cluster_id = known.cluster_id
    qualify row_number() over (partition by seen.cluster_id, seen.name order by seen.own_uid, seen.file) = 1

),

-- What drivers of dynamic resource allocation offer, as they last did; the pool of a node may be in several slices.
offered as (

    select
        cluster_id,
        node,
        seen_at,
        sum(gpus) as gpus,
        max(gpu_type) as gpu_type
    from __dbt__cte__kubernetes_rows
    where kind = 'ResourceSlice' and gpus > 0 and node is not null
    group by cluster_id, node, seen_at
    qualify row_number() over (partition by cluster_id, node order by seen_at desc) = 1

),

listings as (

    select * from __dbt__cte__kubernetes_listings
    where kind = 'Node'

)

select
    latest.cluster_id,
    latest.name as machine_id,
    case
        when latest.cluster_id in ('pai', 'synth') then cast(hash(latest.name) >> 1 as bigint)
        else cast(hash(latest.cluster_id, latest.name) >> 1 as bigint)
    end as machine_key,
    coalesce(nullif(latest.gpu_type, ''), offered.gpu_type) as gpu_type,
    -- The same boards may be offered by a device plugin as well.
    cast(greatest(case when isfinite(latest.gpus) then latest.gpus end, coalesce(offered.gpus, 0)) as bigint) as gpus,
    case when isfinite(latest.cores) then latest.cores end as cores,
    cast(case when isfinite(latest.memory_bytes) then latest.memory_bytes end as bigint) as memory_bytes,
    case when isfinite(latest.device_ratio) then latest.device_ratio end as device_ratio,
    cast(timezone(latest.time_zone, latest.made_at) as date) as made_on,
    cast(timezone(latest.time_zone, listings.next_at) as date) as gone_on
from latest
left join listings on latest.cluster_id = listings.cluster_id and latest.seen_at = listings.seen_at
left join offered on latest.cluster_id = offered.cluster_id and latest.name = offered.node
