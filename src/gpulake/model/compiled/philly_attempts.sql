-- Attempts of Philly by machine. The machines of an attempt are counted, so that a retry elsewhere is one of the same
-- instance.

with machines as (

    select * from __dbt__cte__philly_rows

),

runs as (

    select * from __dbt__cte__philly_runs

),

placed as (

    select
        *,
        row_number() over (partition by job_id, attempt order by machine_id) as position
    from machines

)

select
    cast(hash('philly', placed.job_id) >> 1 as bigint) as job_key,
    cast(hash('philly', placed.job_id, 'job') >> 1 as bigint) as task_key,
    cast(hash('philly', placed.job_id, 'job', placed.position) >> 1 as bigint) as instance_key,
    cast(null as bigint) as worker_key,
    case
        when placed.machine_id is not null then case
        when 'philly' in ('pai', 'synth') then cast(hash(placed.machine_id) >> 1 as bigint)
        else cast(hash('philly', placed.machine_id) >> 1 as bigint)
    end
        else cast(hash('philly', '(all machines)') >> 1 as bigint)
    end as machine_key,
    'philly' as cluster_id,
    'job' as task_name,
    runs.status,
    placed.started_at,
    runs.ended_at,
    placed.gpus,
    case when placed.gpus > 0 then placed.gpu_type end as gpu_type
from placed
inner join runs on placed.job_id = runs.job_id and placed.attempt = runs.run
where (placed.started_at is not null or runs.status in ('running', 'waiting'))
