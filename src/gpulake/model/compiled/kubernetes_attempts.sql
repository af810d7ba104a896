-- Attempts of Kubernetes: a pod is one, and so is each of its restarts. Pods that follow each other in one place of a
-- job are attempts of one instance.

with runs as (

    select * from "lake"."main"."silver_pod_runs"
    where (started_at is not null or status in ('running', 'waiting'))

)

select
    job_key,
    cast(hash(cluster_id, job_id, 'job') >> 1 as bigint) as task_key,
    instance_key,
    worker_key,
    case
        when node_id is not null then case
        when cluster_id in ('pai', 'synth') then cast(hash(node_id) >> 1 as bigint)
        else cast(hash(cluster_id, node_id) >> 1 as bigint)
    end else cast(hash(cluster_id, '(all machines)') >> 1 as bigint)
    end as machine_key,
    cluster_id,
    'job' as task_name,
    status,
    started_at,
    case when started_at is not null then ended_at end as ended_at,
    gpus,
    gpu_type
from runs
