-- What only some schedulers say of a job: where it was to run, and why it waited. Add a source: union its step.

with tries as (

    select * from {{ ref('slurm_tries') }}

),

last_tries as (

    {{ newest('tries', surrogate_key(['cluster_id', 'job_id']), 'run desc') }}

),

-- As long as it waits, Slurm says every reason; afterwards only one that was neither priority nor resources.
said as (

    select
        {{ surrogate_key(['cluster_id', 'own_job_id']) }} as job_key,
        -- What follows the first comma names nodes.
        {{ extract_text('"Reason"', '^([A-Za-z0-9_]+)') }} as reason,
        status,
        asked_at,
        submitted_at
    from {{ ref('slurm_rows') }}
    where step is null and "Reason" not in ('None', 'none', '(null)')

),

reasons as (

    {{ newest(
        'said',
        'job_key',
        "case when status = 'waiting' then 0 else 1 end, asked_at desc nulls last, "
        ~ "submitted_at desc nulls last, case when reason in ('Priority', 'Resources') then 0 else 1 end, reason"
    ) }}

),

-- Of a job of Kubernetes, what the scheduler says of its pods says more than what held it in a queue before.
pods as (

    select
        job_key,
        queue_id as pod_queue,
        cast(null as varchar) as owner_queue,
        wait_reason as scheduler_reason,
        cast(null as varchar) as queue_reason
    from {{ ref('silver_pod_runs') }}

    union all

    select
        job_key,
        cast(null as varchar) as pod_queue,
        queue_id as owner_queue,
        cast(null as varchar) as scheduler_reason,
        wait_reason as queue_reason
    from {{ ref('silver_pod_owners') }}

)

select
    last_tries.row_key as job_key,
    last_tries.partition_id,
    last_tries.qos_id,
    last_tries.reservation_id,
    reasons.reason as wait_reason
from last_tries
left join reasons on last_tries.row_key = reasons.row_key

union all

select
    job_key,
    coalesce(max(owner_queue), max(pod_queue)) as partition_id,
    cast(null as varchar) as qos_id,
    cast(null as varchar) as reservation_id,
    coalesce(max(scheduler_reason), max(queue_reason)) as wait_reason
from pods
group by job_key
having partition_id is not null or wait_reason is not null
