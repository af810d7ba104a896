-- Where the scheduler says which GPUs of a machine an attempt holds.

with nodes as (

    select * from __dbt__cte__slurm_nodes
    where node_gpu_indexes is not null and started_at is not null

),

final as (

    select
        cast(hash(cluster_id, job_id) >> 1 as bigint) as job_key,
        worker_key,
        cluster_id,
        case
        when cluster_id in ('pai', 'synth') then cast(hash(node) >> 1 as bigint)
        else cast(hash(cluster_id, node) >> 1 as bigint)
    end as machine_key,
        cast(unnest(string_split(node_gpu_indexes, ',')) as bigint) as gpu_index,
        started_at,
        ended_at
    from nodes

)

select * from final

-- test: an_attempt_holds_a_gpu_once() error
select worker_key, gpu_index
from "lake"."main"."silver_held_gpus"
group by worker_key, gpu_index
having count(*) > 1

-- test: in_range_silver_held_gpus_0__gpu_index(gpu_index) error
where false
    or gpu_index < 0

-- test: not_null_silver_held_gpus_cluster_id(cluster_id) error
where cluster_id is null

-- test: not_null_silver_held_gpus_gpu_index(gpu_index) error
where gpu_index is null

-- test: not_null_silver_held_gpus_job_key(job_key) error
where job_key is null

-- test: not_null_silver_held_gpus_machine_key(machine_key) error
where machine_key is null

-- test: not_null_silver_held_gpus_started_at(started_at) error
where started_at is null

-- test: not_null_silver_held_gpus_worker_key(worker_key) error
where worker_key is null
