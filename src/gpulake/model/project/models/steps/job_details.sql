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

)

select
    last_tries.row_key as job_key,
    last_tries.partition_id,
    last_tries.qos_id,
    last_tries.reservation_id,
    reasons.reason as wait_reason
from last_tries
left join reasons on last_tries.row_key = reasons.row_key
