-- Every time that Slurm ran a job: one that was requeued began anew. A row that waits goes once its job has begun.

with jobs as (

    select * from __dbt__cte__slurm_rows
    where step is null

),

-- The last task of an array that begins takes the number of the array: then none of it waits any more.
used_up as (

    select cast(hash(cluster_id, array_job_id) >> 1 as bigint) as array_key
    from jobs
    where not is_rest and raw_job_id = array_job_id

),

awaited as (

    select *
    from jobs
    where
        not is_rest
        or cast(hash(cluster_id, array_job_id) >> 1 as bigint) not in (select used_up.array_key from used_up)

),

-- By the local time: a row of a run that is not over does not tell which of two hours it began in. Accounting, which
-- has the run time, says more than the list of jobs that slurmctld keeps.
told_once as (

    
    with keyed as not materialized (

        select
            *,
            cast(hash(cluster_id, own_job_id, case when started_at is not null then local_start end) >> 1 as bigint) as row_key
        from awaited

    ),

    repeated as (

        select row_key
        from keyed
        group by row_key
        having count(*) > 1

    )

    select * from keyed
    where row_key not in (select row_key from repeated)

    union all

    select * from keyed
    where row_key in (select row_key from repeated)
    qualify row_number() over (partition by row_key order by ended_at desc nulls last, case status when 'succeeded' then 1 when 'failed' then 2 when 'node_fail' then 3 when 'timeout' then 4 when 'interrupted' then 5 when 'cancelled' then 6 when 'running' then 7 when 'waiting' then 8 when 'unknown' then 9 end, case when "ElapsedRaw" is null then 1 else 0 end, submitted_at desc nulls last, try_cast(nullif(regexp_extract(array_task_id, '([0-9]+)', 1), '') as double) desc nulls last, keyed) = 1


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
    coalesce("User" || '/' || case when not (
        lower("JobName") in (
            'allocation', 'batch', 'bash', 'csh', 'fish', 'interactive', 'ipython', 'jupyter', 'jupyter-lab',
            'jupyter-notebook', 'jupyterhub', 'jupyterlab', 'ksh', 'matlab', 'notebook', 'salloc', 'sbatch', 'sh', 'sleep',
            'spawner-jupyterhub', 'srun', 'tcsh', 'torchrun', 'tmux', 'wrap', 'zsh'
        )
        or nullif(regexp_extract(lower("JobName"), '^(python[0-9.]*|sys/dashboard/.*)$', 1), '') is not null
    ) then "JobName" end, "User") as group_id,
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
    greatest(coalesce(cast(case when isfinite(coalesce("NNodes", "AllocNodes")) then coalesce("NNodes", "AllocNodes") end as bigint), 1), 1) as node_count,
    coalesce(case when isfinite("ReqCPUS") then "ReqCPUS" end, case when isfinite("NCPUS") then "NCPUS" end, case when isfinite("AllocCPUS") then "AllocCPUS" end) as cores,
    case when isfinite(memory_bytes) then memory_bytes end as memory_bytes,
    coalesce(case when isfinite(requested_gpus) then requested_gpus end, case when isfinite(gpus) then gpus end, 0) as requested_gpus,
    coalesce(case when isfinite(gpus) then gpus end, case when isfinite(requested_gpus) then requested_gpus end, 0) as gpus,
    case
        when coalesce(gpus, requested_gpus) > 0
            then coalesce(case when gpu_type not like '%,%' then gpu_type end, known_gpu_type)
    end as gpu_type,
    nodes,
    run_gpu_indexes as gpu_indexes,
    js1
from numbered
