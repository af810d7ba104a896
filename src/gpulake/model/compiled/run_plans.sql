-- Their tasks, one for each job, as its last run asked for it. A task waits from when its job could first have begun.

with runs as (

    select * from __dbt__cte__runs

),

spans as (

    select
        cast(hash(cluster_id, job_id) >> 1 as bigint) as job_key,
        min(launched_at) as launched_at
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
    cast(hash(last_runs.cluster_id, last_runs.job_id, 'job') >> 1 as bigint) as task_key,
    last_runs.row_key as job_key,
    last_runs.cluster_id,
    'job' as task_name,
    last_runs.planned_instances,
    last_runs.status,
    spans.launched_at,
    last_runs.ended_at,
    last_runs.requested_cores,
    last_runs.requested_memory_bytes,
    last_runs.requested_gpus,
    last_runs.gpu_type
from last_runs
left join spans on last_runs.row_key = spans.job_key
