-- What Kubernetes reports of its nodes: faults in the messages of a problem detector, by formats/kernel.toml, kills for
-- memory, evictions, nodes that are not ready, and conditions that are problems.

with objects as (

    select * from __dbt__cte__kubernetes_rows

),

events as (

    select
        cluster_id,
        uid,
        max(node) as node_id,
        max(last_at) as happened_at,
        max(coalesce(
            fault_kind,
            case reason
                when 'OOMKilling' then 'oom_kill'
                when 'SystemOOM' then 'oom_kill'
                when 'NodeNotReady' then 'node_not_ready'
                when 'Rebooted' then 'node_rebooted'
                when 'Evicted' then 'pod_evicted'
                when 'Preempted' then 'pod_preempted'
                when 'BackOff' then 'pod_backoff'
            end
        )) as kind,
        max(coalesce(fault_subject, object_name)) as subject,
        max(fault_code) as code,
        max(message) as message
    from objects
    where kind = 'Event'
    group by cluster_id, uid

),

-- The node of a pod, for events that do not name it.
places as (

    select
        cluster_id,
        uid,
        max(node) as node
    from objects
    where kind = 'Pod'
    group by cluster_id, uid

),

subjects as (

    select
        cluster_id,
        uid,
        max(object_uid) as object_uid
    from objects
    where kind = 'Event'
    group by cluster_id, uid

),

reported as (

    select
        events.cluster_id,
        coalesce(events.node_id, places.node) as node_id,
        events.happened_at,
        events.kind,
        events.subject,
        events.code,
        events.message
    from events
    inner join subjects on events.cluster_id = subjects.cluster_id and events.uid = subjects.uid
    left join places on subjects.cluster_id = places.cluster_id and subjects.object_uid = places.uid

    union

        select
            cluster_id,
            node as node_id,
            "container_finishedAt" as happened_at,
            'oom_kill' as kind,
            name as subject,
            cast(null as bigint) as code,
            'OOMKilled: pod ' || coalesce(namespace || '/', '') || name as message
        from objects
        where kind = 'Pod' and "container_reason" = 'OOMKilled'
    union

        select
            cluster_id,
            node as node_id,
            "last_finishedAt" as happened_at,
            'oom_kill' as kind,
            name as subject,
            cast(null as bigint) as code,
            'OOMKilled: pod ' || coalesce(namespace || '/', '') || name as message
        from objects
        where kind = 'Pod' and "last_reason" = 'OOMKilled'
    

    union

    select
        cluster_id,
        node_id,
        try_cast(json_extract_string(try_cast(try_cast(problems as json) as map(varchar, json))[condition], '$."lastTransitionTime"') as timestamptz) as happened_at,
        'node_problem' as kind,
        condition as subject,
        cast(null as bigint) as code,
        condition || coalesce(': ' || json_extract_string(try_cast(try_cast(problems as json) as map(varchar, json))[condition], '$."message"'), '') as message
    from (
        select
            cluster_id,
            name as node_id,
            problems,
            unnest(json_keys(problems)) as condition
        from objects
        where kind = 'Node' and problems is not null
    ) as conditions

)

select
    *,
    cast(null as bigint) as pid
from reported
where node_id is not null and happened_at is not null and kind is not null
