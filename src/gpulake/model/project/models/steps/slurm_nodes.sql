-- The nodes of each run of Slurm; one without a name where the dump has none. How many of its GPUs a node has, jobstats
-- says, or the indexes of its GPUs; what neither places is spread evenly.

with tries as (

    select * from {{ ref('slurm_tries') }}
    where {{ has_begun_or_may('started_at', 'status') }}

),

named as (

    select
        *,
        {{ each_item("coalesce(nodes, '')") }} as item
    from tries

),

reported as (

    select
        *,
        {{ json_member(json_member('js1', "'nodes'"), 'item') }} as summary,
        {{ items_under('gpu_indexes', 'item') }} as node_gpu_indexes
    from named

),

counted as (

    select
        *,
        coalesce(
            nullif({{ json_count(json_member('summary', "'gpu_utilization'")) }}, 0),
            {{ count_of_items('node_gpu_indexes') }}
        ) as told_gpus
    from reported

),

summed as (

    select
        *,
        count(*) over by_run as run_nodes,
        count(told_gpus) over by_run as told_nodes,
        sum(told_gpus) over by_run as told_run_gpus
    from counted
    window by_run as (partition by cluster_id, job_id, run)

)

select
    cluster_id,
    job_id,
    run,
    status,
    started_at,
    ended_at,
    nullif(item, '') as node,
    {{ surrogate_key(['cluster_id', 'job_id', 'item', 'started_at']) }} as worker_key,
    case
        when told_nodes = 0 then gpus / run_nodes
        when told_nodes < run_nodes and told_run_gpus <= gpus
            then coalesce(told_gpus, (gpus - told_run_gpus) / (run_nodes - told_nodes))
        else gpus * coalesce(told_gpus, 0) / told_run_gpus
    end as gpus,
    gpu_type,
    node_gpu_indexes,
    js1,
    summary
from summed
