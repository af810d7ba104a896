-- Runs of pods. A container that restarts in its pod runs again, and the GPUs stay with the pod: each run lasts until
-- the next one, the first from when the kubelet took the pod on. Runs that no snapshot saw belong to those around them.

with pods as (

    select * from __dbt__cte__kubernetes_pods

),

seen as (

    select
            cluster_id,
            uid,
            "container_startedAt" as began_at,
            "container_exitCode" as exit_code
        from __dbt__cte__kubernetes_rows
        where kind = 'Pod' and "container_startedAt" is not null
        union all
    select
            cluster_id,
            uid,
            "last_startedAt" as began_at,
            "last_exitCode" as exit_code
        from __dbt__cte__kubernetes_rows
        where kind = 'Pod' and "last_startedAt" is not null
        
    

),

runs as (

    select
        cluster_id,
        uid,
        began_at,
        max(exit_code) as exit_code
    from seen
    group by cluster_id, uid, began_at

),

followed as (

    select
        *,
        row_number() over by_begin as try,
        lead(began_at) over by_begin as next_began_at
    from runs
    window by_begin as (partition by cluster_id, uid order by began_at)

)

select
    pods.* replace (
        case
            when followed.next_began_at is null then pods.status
            when followed.exit_code = 0 then 'succeeded'
            else 'failed'
        end as status,
        case when followed.try > 1 then followed.began_at else pods.started_at end as started_at,
        coalesce(followed.next_began_at, pods.ended_at) as ended_at,
        case when followed.next_began_at is null then pods.inferred_ended_at end as inferred_ended_at
    ),
    coalesce(followed.try, 1) as try,
    cast(hash(pods.cluster_id, pods.uid, coalesce(followed.try, 1)) >> 1 as bigint) as worker_key
from pods
left join followed on pods.cluster_id = followed.cluster_id and pods.uid = followed.uid
