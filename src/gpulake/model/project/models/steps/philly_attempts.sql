-- Attempts of Philly by machine. The machines of an attempt are counted, so that a retry elsewhere is one of the same
-- instance.

with machines as (

    select * from {{ ref('philly_rows') }}

),

runs as (

    select * from {{ ref('philly_runs') }}

),

placed as (

    select
        *,
        row_number() over (partition by job_id, attempt order by machine_id) as position
    from machines

)

select
    {{ surrogate_key(["'philly'", 'placed.job_id']) }} as job_key,
    {{ surrogate_key(["'philly'", 'placed.job_id', "'job'"]) }} as task_key,
    {{ surrogate_key(["'philly'", 'placed.job_id', "'job'", 'placed.position']) }} as instance_key,
    cast(null as bigint) as worker_key,
    case
        when placed.machine_id is not null then {{ machine_key("'philly'", 'placed.machine_id') }}
        else {{ pool_key("'philly'") }}
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
where {{ has_begun_or_may('placed.started_at', 'runs.status') }}
