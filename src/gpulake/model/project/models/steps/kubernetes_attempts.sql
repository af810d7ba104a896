-- Attempts of Kubernetes: a pod is one, and so is each of its restarts. Pods that follow each other in one place of a
-- job are attempts of one instance.

with runs as (

    select * from {{ ref('silver_pod_runs') }}
    where {{ has_begun_or_may('started_at', 'status') }}

)

select
    job_key,
    {{ surrogate_key(['cluster_id', 'job_id', "'job'"]) }} as task_key,
    instance_key,
    worker_key,
    case
        when node_id is not null then {{ machine_key('cluster_id', 'node_id') }} else {{ pool_key('cluster_id') }}
    end as machine_key,
    cluster_id,
    'job' as task_name,
    status,
    started_at,
    case when started_at is not null then ended_at end as ended_at,
    gpus,
    gpu_type
from runs
