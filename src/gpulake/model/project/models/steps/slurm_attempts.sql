-- Attempts of Slurm by node. The nodes of a run are counted, so that a retry elsewhere is one of the same instance.

with nodes as (

    select * from {{ ref('slurm_nodes') }}

),

machines as (

    select * from {{ ref('silver_machines') }}

),

placed as (

    select
        *,
        row_number() over (partition by cluster_id, job_id, run order by node) as position,
        case
            when node is not null then {{ machine_key('cluster_id', 'node') }} else {{ pool_key('cluster_id') }}
        end as machine_key
    from nodes

)

select
    {{ surrogate_key(['placed.cluster_id', 'placed.job_id']) }} as job_key,
    {{ surrogate_key(['placed.cluster_id', 'placed.job_id', "'job'"]) }} as task_key,
    {{ surrogate_key(['placed.cluster_id', 'placed.job_id', "'job'", 'placed.position']) }} as instance_key,
    placed.worker_key,
    placed.machine_key,
    placed.cluster_id,
    'job' as task_name,
    placed.status,
    placed.started_at,
    case when placed.started_at is not null then placed.ended_at end as ended_at,
    placed.gpus,
    case when placed.gpus > 0 then coalesce(machines.gpu_type, placed.gpu_type) end as gpu_type
from placed
left join machines on placed.machine_key = machines.machine_key
