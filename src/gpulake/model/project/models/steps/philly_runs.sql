-- Attempts of Philly as a whole. An attempt that is followed by another one failed, and it ended before that began,
-- even if its end is not recorded.

with machines as (

    select * from {{ ref('philly_rows') }}

),

attempts as (

    select
        job_id,
        attempt,
        max(user_id) as user_id,
        max(account_id) as account_id,
        min({{ status_rank('job_status') }}) as job_status_rank,
        min(submitted_at) as submitted_at,
        min(started_at) as started_at,
        max(ended_at) as ended_at,
        count(machine_id) as machines,
        sum(gpus) as gpus,
        max(gpu_type) as gpu_type
    from machines
    group by job_id, attempt

),

judged as (

    select
        *,
        max(attempt) over by_job as last_attempt,
        min(started_at) over (
            partition by job_id order by attempt rows between 1 following and unbounded following
        ) as next_started_at,
        first_value(job_status_rank) over (partition by job_id order by attempt desc) as last_status_rank,
        greatest(max(machines) over by_job, 1) as most_machines,
        max(gpus) over by_job as most_gpus
    from attempts
    window by_job as (partition by job_id)

)

select
    'philly' as cluster_id,
    job_id,
    attempt as run,
    user_id,
    user_id as group_id,
    cast(null as varchar) as workload,
    account_id,
    cast(null as varchar) as requested_gpu_type,
    case when attempt < last_attempt then 'failed' else {{ status_of_rank('last_status_rank') }} end as status,
    submitted_at,
    submitted_at as launched_at,
    started_at,
    coalesce(ended_at, next_started_at) as ended_at,
    most_machines as planned_instances,
    cast(null as double) as requested_cores,
    cast(null as bigint) as requested_memory_bytes,
    most_gpus / most_machines as requested_gpus,
    gpus,
    case when most_gpus > 0 then gpu_type end as gpu_type
from judged
