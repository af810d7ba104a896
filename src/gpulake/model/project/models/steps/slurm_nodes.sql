-- The nodes of each run of Slurm; one without a name where the dump has none.

with tries as (

    select * from {{ ref('slurm_tries') }}

),

named as (

    select
        *,
        {{ each_item("coalesce(nodes, '')") }} as item,
        length(coalesce(nodes, '')) - length(replace(coalesce(nodes, ''), ',', '')) + 1 as items
    from tries
    where {{ has_begun_or_may('started_at', 'status') }}

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
    gpus / items as gpus,
    gpu_type,
    js1
from named
