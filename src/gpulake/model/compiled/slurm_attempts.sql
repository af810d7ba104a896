-- Attempts of Slurm by node. The nodes of a run are counted, so that a retry elsewhere is one of the same instance.

with nodes as (

    select * from __dbt__cte__slurm_nodes

),

machines as (

    select * from "lake"."main"."silver_machines"

),

placed as (

    select
        *,
        row_number() over (partition by cluster_id, job_id, run order by node) as position,
        case
            when node is not null then case
        when cluster_id in ('pai', 'synth') then cast(hash(node) >> 1 as bigint)
        else cast(hash(cluster_id, node) >> 1 as bigint)
    end else cast(hash(cluster_id, '(all machines)') >> 1 as bigint)
        end as machine_key
    from nodes

)

select
    cast(hash(placed.cluster_id, placed.job_id) >> 1 as bigint) as job_key,
    cast(hash(placed.cluster_id, placed.job_id, 'job') >> 1 as bigint) as task_key,
    cast(hash(placed.cluster_id, placed.job_id, 'job', placed.position) >> 1 as bigint) as instance_key,
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
