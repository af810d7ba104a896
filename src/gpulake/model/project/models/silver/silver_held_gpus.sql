-- Where the scheduler says which GPUs of a machine an attempt holds.

with nodes as (

    select * from {{ ref('slurm_nodes') }}
    where node_gpu_indexes is not null and started_at is not null

),

final as (

    select
        {{ surrogate_key(['cluster_id', 'job_id']) }} as job_key,
        worker_key,
        cluster_id,
        {{ machine_key('cluster_id', 'node') }} as machine_key,
        cast({{ each_item('node_gpu_indexes') }} as bigint) as gpu_index,
        started_at,
        ended_at
    from nodes

)

select * from final
