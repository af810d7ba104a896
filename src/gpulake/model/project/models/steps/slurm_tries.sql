-- Every time that Slurm ran a job: one that was requeued began anew. A row that waits goes once its job has begun.

with jobs as (

    select * from {{ ref('slurm_rows') }}
    where step is null

),

-- The last task of an array that begins takes the number of the array: then none of it waits any more.
used_up as (

    select {{ surrogate_key(['cluster_id', 'array_job_id']) }} as array_key
    from jobs
    where not is_rest and raw_job_id = array_job_id

),

awaited as (

    select *
    from jobs
    where
        not is_rest
        or {{ surrogate_key(['cluster_id', 'array_job_id']) }} not in (select used_up.array_key from used_up)

),

-- By the local time: a row of a run that is not over does not tell which of two hours it began in. Accounting, which
-- has the run time, says more than the list of jobs that slurmctld keeps.
told_once as (

    {{ newest(
        'awaited',
        surrogate_key(['cluster_id', 'own_job_id', 'case when started_at is not null then local_start end']),
        'ended_at desc nulls last, ' ~ status_rank('status')
        ~ ', case when "ElapsedRaw" is null then 1 else 0 end, submitted_at desc nulls last, '
        ~ try_number(extract_text('array_task_id', '([0-9]+)')) ~ ' desc nulls last'
    ) }}

),

-- Only what slurmctld says of a run has the GPUs that it holds.
indexed as (

    select
        cluster_id,
        own_job_id,
        local_start,
        max(gpu_indexes) as run_gpu_indexes
    from jobs
    where gpu_indexes is not null and started_at is not null
    group by cluster_id, own_job_id, local_start

),

begins as (

    select
        cluster_id,
        own_job_id,
        max(started_at) as last_started_at
    from told_once
    group by cluster_id, own_job_id

),

numbered as (

    select
        told_once.*,
        indexed.run_gpu_indexes,
        row_number() over by_begin as run,
        lead(told_once.own_job_id) over by_begin is not null as is_followed,
        lead(told_once.submitted_at) over by_begin as next_submitted_at,
        lead(told_once.started_at) over by_begin as next_started_at
    from told_once
    inner join begins on told_once.cluster_id = begins.cluster_id and told_once.own_job_id = begins.own_job_id
    left join indexed
        on
            told_once.cluster_id = indexed.cluster_id
            and told_once.own_job_id = indexed.own_job_id
            and told_once.local_start = indexed.local_start
    where
        told_once.started_at is not null
        or begins.last_started_at is null
        or told_once.submitted_at > begins.last_started_at
    window
        by_begin as (
            partition by told_once.cluster_id, told_once.own_job_id order by told_once.started_at asc nulls last
        )

)

select
    cluster_id,
    own_job_id as job_id,
    run,
    "User" as user_id,
    {{ recurrence_group('"User"', '"JobName"') }} as group_id,
    "Account" as account_id,
    "Partition" as partition_id,
    "QOS" as qos_id,
    "Reservation" as reservation_id,
    gpu_type as requested_gpu_type,
    -- A job that was submitted anew runs no longer as it did, though no dump may tell how that ended.
    case when status = 'running' and ended_at is null and is_followed then 'interrupted' else status end as status,
    submitted_at,
    coalesce(eligible_at, submitted_at) as launched_at,
    started_at,
    coalesce(
        ended_at,
        case when next_submitted_at > started_at then next_submitted_at end,
        next_started_at
    ) as ended_at,
    {{ at_least_one('coalesce("NNodes", "AllocNodes")') }} as node_count,
    coalesce({{ finite('"ReqCPUS"') }}, {{ finite('"NCPUS"') }}, {{ finite('"AllocCPUS"') }}) as cores,
    {{ finite('memory_bytes') }} as memory_bytes,
    coalesce({{ finite('requested_gpus') }}, {{ finite('gpus') }}, 0) as requested_gpus,
    coalesce({{ finite('gpus') }}, {{ finite('requested_gpus') }}, 0) as gpus,
    case
        when coalesce(gpus, requested_gpus) > 0
            then coalesce(case when gpu_type not like '%,%' then gpu_type end, known_gpu_type)
    end as gpu_type,
    nodes,
    run_gpu_indexes as gpu_indexes,
    js1
from numbered
