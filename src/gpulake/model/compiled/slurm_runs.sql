-- Runs of Slurm in the words of all sources.

with tries as (

    select * from __dbt__cte__slurm_tries

)

select
    cluster_id,
    job_id,
    run,
    user_id,
    group_id,
    cast(null as varchar) as workload,
    account_id,
    requested_gpu_type,
    status,
    submitted_at,
    launched_at,
    started_at,
    ended_at,
    node_count as planned_instances,
    cores / node_count as requested_cores,
    cast(memory_bytes / node_count as bigint) as requested_memory_bytes,
    requested_gpus / node_count as requested_gpus,
    gpus,
    gpu_type
from tries
