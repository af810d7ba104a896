-- Jobs of the sources that tell of runs: begun with the first of them, and what became of the last.

with runs as (

    select * from {{ ref('runs') }}

),

spans as (

    select
        {{ surrogate_key(['cluster_id', 'job_id']) }} as job_key,
        min(submitted_at) as submitted_at,
        min(started_at) as started_at
    from runs
    group by job_key

),

last_runs as (

    {{ newest('runs', surrogate_key(['cluster_id', 'job_id']), 'run desc') }}

)

select
    last_runs.row_key as job_key,
    last_runs.cluster_id,
    last_runs.job_id,
    last_runs.user_id,
    last_runs.group_id,
    last_runs.workload,
    last_runs.account_id,
    last_runs.requested_gpu_type,
    last_runs.status,
    spans.submitted_at,
    spans.started_at,
    -- What runs or waits has not ended, whatever else its row says: openb has the time at which a pod was deleted.
    case when {{ has_ended('last_runs.status') }} then last_runs.ended_at end as ended_at
from last_runs
left join spans on last_runs.row_key = spans.job_key
