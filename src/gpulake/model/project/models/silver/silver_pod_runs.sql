-- Runs of pods. A container that restarts in its pod runs again, and the GPUs stay with the pod: each run lasts until
-- the next one, the first from when the kubelet took the pod on. Runs that no snapshot saw belong to those around them.

with pods as (

    select * from {{ ref('kubernetes_pods') }}

),

seen as (

    {% for run in ['container', 'last'] -%}
        select
            cluster_id,
            uid,
            "{{ run }}_startedAt" as began_at,
            "{{ run }}_exitCode" as exit_code
        from {{ ref('kubernetes_rows') }}
        where kind = 'Pod' and "{{ run }}_startedAt" is not null
        {{ 'union all' if not loop.last }}
    {% endfor %}

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

),

final as (

    select
        pods.cluster_id,
        {{ surrogate_key(['pods.cluster_id', 'pods.uid', 'coalesce(followed.try, 1)']) }} as worker_key,
        {{ surrogate_key(['pods.cluster_id', 'pods.job_id']) }} as job_key,
        {{ surrogate_key(['pods.cluster_id', 'pods.job_id', "'job'", 'pods.instance']) }} as instance_key,
        pods.job_id,
        pods.job_uid,
        pods.uid as pod_uid,
        pods.namespace as group_id,
        pods.name as pod_name,
        coalesce(followed.try, 1) as run,
        followed.next_began_at is null as is_last_run,
        pods.node as node_id,
        pods.role,
        pods.user_id,
        pods.queue as queue_id,
        case
            when followed.next_began_at is null then pods.status
            when followed.exit_code = 0 then 'succeeded'
            else 'failed'
        end as status,
        pods.submitted_at,
        pods.started_at as pod_started_at,
        case when followed.try > 1 then followed.began_at else pods.started_at end as started_at,
        coalesce(followed.next_began_at, pods.ended_at) as ended_at,
        case when followed.next_began_at is null then pods.inferred_ended_at end as inferred_ended_at,
        pods.gpus,
        pods.gpu_type,
        pods.cores,
        pods.memory_bytes,
        pods.wait_reason,
        pods.wait_message
    from pods
    left join followed on pods.cluster_id = followed.cluster_id and pods.uid = followed.uid

)

select * from final
