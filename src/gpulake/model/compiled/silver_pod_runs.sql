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

),

final as (

    select
        pods.cluster_id,
        cast(hash(pods.cluster_id, pods.uid, coalesce(followed.try, 1)) >> 1 as bigint) as worker_key,
        cast(hash(pods.cluster_id, pods.job_id) >> 1 as bigint) as job_key,
        cast(hash(pods.cluster_id, pods.job_id, 'job', pods.instance) >> 1 as bigint) as instance_key,
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

-- test: a_run_of_a_pod_has_one_row() error
select cluster_id, pod_uid, run
from "lake"."main"."silver_pod_runs"
group by cluster_id, pod_uid, run
having count(*) > 1

-- test: not_null_silver_pod_runs_cluster_id(cluster_id) error
where cluster_id is null

-- test: not_null_silver_pod_runs_instance_key(instance_key) error
where instance_key is null

-- test: not_null_silver_pod_runs_is_last_run(is_last_run) error
where is_last_run is null

-- test: not_null_silver_pod_runs_job_key(job_key) error
where job_key is null

-- test: not_null_silver_pod_runs_pod_uid(pod_uid) error
where pod_uid is null

-- test: not_null_silver_pod_runs_run(run) error
where run is null

-- test: not_null_silver_pod_runs_status(status) error
where status is null

-- test: not_null_silver_pod_runs_worker_key(worker_key) error
where worker_key is null

-- test: unique_silver_pod_runs_worker_key(worker_key) error
select
    worker_key as unique_field,
    count(*) as n_records

from "lake"."main"."silver_pod_runs"
where worker_key is not null
group by worker_key
having count(*) > 1
