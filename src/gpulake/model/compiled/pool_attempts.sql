-- Attempts of sources that do not say where a job ran: one for each job, on all machines of its cluster.

with runs as (

    select * from __dbt__cte__acme_runs
            union all
        select * from __dbt__cte__helios_runs
            union all
        select * from __dbt__cte__openb_runs
            union all
        select * from __dbt__cte__opendc_runs
            union all
        select * from __dbt__cte__swf_runs

)

select
    cast(hash(cluster_id, job_id) >> 1 as bigint) as job_key,
    cast(hash(cluster_id, job_id, 'job') >> 1 as bigint) as task_key,
    cast(hash(cluster_id, job_id, 'job', 1) >> 1 as bigint) as instance_key,
    cast(null as bigint) as worker_key,
    cast(hash(cluster_id, '(all machines)') >> 1 as bigint) as machine_key,
    cluster_id,
    'job' as task_name,
    status,
    started_at,
    case when started_at is not null then ended_at end as ended_at,
    gpus,
    gpu_type
from runs
where (started_at is not null or status in ('running', 'waiting'))
