-- Jobs of Helios, whose times are those of the clusters' own clocks.

with jobs as (

    {{ newest(
        source('landed', 'bronze_helios_jobs'),
        surrogate_key(['lower(cluster)', 'job_id']),
        'end_time desc nulls last, start_time desc nulls last, ' ~ status_rank(slurm_status('state'))
    ) }}

),

known as (

    select * from {{ source('landed', 'known_clusters') }}

),

usual as (

    select coalesce(max(time_zone), 'UTC') as usual_zone
    from known
    where cluster_id in (select lower(jobs.cluster) from jobs)

),

zoned as (

    select
        jobs.*,
        lower(jobs.cluster) as cluster_id,
        coalesce(known.time_zone, 'UTC') as time_zone,
        usual.usual_zone,
        known.gpu_type,
        {{ at_least_one('jobs.node_num') }} as nodes,
        coalesce({{ finite('jobs.gpu_num') }}, 0) as gpus
    from jobs
    left join known on lower(jobs.cluster) = known.cluster_id
    cross join usual

)

select
    cluster_id,
    job_id,
    cast(1 as bigint) as run,
    "user" as user_id,
    "user" as group_id,
    cast(null as varchar) as workload,
    vc as account_id,
    cast(null as varchar) as requested_gpu_type,
    {{ slurm_status('state') }} as status,
    {{ instant_of_local('submit_time', 'time_zone', 'usual_zone') }} as submitted_at,
    {{ instant_of_local('submit_time', 'time_zone', 'usual_zone') }} as launched_at,
    {{ instant_of_local('start_time', 'time_zone', 'usual_zone') }} as started_at,
    {{ instant_of_local('end_time', 'time_zone', 'usual_zone') }} as ended_at,
    nodes as planned_instances,
    {{ finite('cpu_num') }} / nodes as requested_cores,
    cast(null as bigint) as requested_memory_bytes,
    gpus / nodes as requested_gpus,
    gpus,
    case when gpus > 0 then gpu_type end as gpu_type
from zoned
