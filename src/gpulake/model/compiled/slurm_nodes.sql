-- The nodes of each run of Slurm; one without a name where the dump has none. How many of its GPUs a node has, jobstats
-- says, or the indexes of its GPUs; what neither places is spread evenly.

with tries as (

    select * from __dbt__cte__slurm_tries
    where (started_at is not null or status in ('running', 'waiting'))

),

named as (

    select
        *,
        unnest(string_split(coalesce(nodes, ''), ',')) as item
    from tries

),

reported as (

    select
        *,
        try_cast(try_cast(try_cast(try_cast(js1 as json) as map(varchar, json))['nodes'] as json) as map(varchar, json))[item] as summary,
        nullif(
        array_to_string(
            [
                substr(place, length(item) + 2)
                for place in string_split(gpu_indexes, ',')
                if starts_with(place, item || '/')
            ],
            ','
        ),
        ''
    ) as node_gpu_indexes
    from named

),

counted as (

    select
        *,
        coalesce(
            nullif(cardinality(try_cast(try_cast(try_cast(summary as json) as map(varchar, json))['gpu_utilization'] as map(varchar, double))), 0),
            len(string_split(node_gpu_indexes, ','))
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
    cast(hash(cluster_id, job_id, item, started_at) >> 1 as bigint) as worker_key,
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
