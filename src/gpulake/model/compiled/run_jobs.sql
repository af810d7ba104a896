-- Jobs of the sources that tell of runs: begun with the first of them, and what became of the last.

with runs as (

    select * from __dbt__cte__runs

),

spans as (

    select
        cast(hash(cluster_id, job_id) >> 1 as bigint) as job_key,
        min(submitted_at) as submitted_at,
        min(started_at) as started_at
    from runs
    group by job_key

),

last_runs as (

    
    with keyed as not materialized (

        select
            *,
            cast(hash(cluster_id, job_id) >> 1 as bigint) as row_key
        from runs

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
    qualify row_number() over (partition by row_key order by run desc, keyed) = 1


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
    case when last_runs.status not in ('running', 'waiting') then last_runs.ended_at end as ended_at
from last_runs
left join spans on last_runs.row_key = spans.job_key
