-- What runs of Slurm used on each node: as jobstats summed it up, or else by gres/gpuutil of their steps, each for its
-- own time and spread evenly over its own nodes. Slurm measures the processes of each step apart: steps that run at the
-- same time add up, to no more than the GPUs of the node. In the time of no step nothing is used. What a step used is
-- written when it ends: nothing is known of a run until it has ended.



with nodes as (

    select * from __dbt__cte__slurm_nodes
    where started_at is not null

),

runs as (

    select * from __dbt__cte__slurm_tries
    where ended_at > started_at

),

measured as (

    select
        *,
        try_cast(nullif(regexp_extract("TRESUsageInTot", '(?:^|,)gres/gpuutil=([0-9]{1,9})(?:,|$)', 1), '') as double) / 100 as total_ratio
    from __dbt__cte__slurm_rows
    where step is not null and started_at is not null and coalesce(gpu_util_ratio, try_cast(nullif(regexp_extract("TRESUsageInTot", '(?:^|,)gres/gpuutil=([0-9]{1,9})(?:,|$)', 1), '') as double)) is not null

),

steps as (

    
    with keyed as not materialized (

        select
            *,
            cast(hash(cluster_id, own_job_id, step, started_at) >> 1 as bigint) as row_key
        from measured

    ),

    repeated as (

        select row_key
        from keyed
        group by row_key
        having count(*) > 1

    )

    select * from keyed
    where row_key not in (select row_key from repeated)

    union all

    select * from keyed
    where row_key in (select row_key from repeated)
    qualify row_number() over (partition by row_key order by ended_at desc nulls last, total_ratio desc nulls last, gpu_util_ratio desc nulls last, keyed) = 1


),

paired as (

    select
        runs.cluster_id,
        runs.job_id,
        runs.run,
        runs.started_at as run_started_at,
        runs.ended_at as run_ended_at,
        case when runs.nodes is null then '' else coalesce(steps.nodes, runs.nodes) end as step_nodes,
        -- In an hour that comes twice, the one in which its job ran.
        case
            when runs.started_at <= steps.started_at and runs.ended_at > steps.started_at then steps.started_at
            else case
        when
            least(
            timezone(steps.zone, steps."Start" - interval 1 day) + interval 24 hour,
            timezone(steps.zone, steps."Start" + interval 1 day) - interval 24 hour
        ) < steps.started_at
            and (
                timezone(steps.zone, least(
            timezone(steps.zone, steps."Start" - interval 1 day) + interval 24 hour,
            timezone(steps.zone, steps."Start" + interval 1 day) - interval 24 hour
        )) = steps."Start" or timezone(steps.zone, steps.started_at) != steps."Start"
            )
            then least(
            timezone(steps.zone, steps."Start" - interval 1 day) + interval 24 hour,
            timezone(steps.zone, steps."Start" + interval 1 day) - interval 24 hour
        )
    end
        end as started_at,
        (epoch_us(steps.ended_at) / 1e6) - (epoch_us(steps.started_at) / 1e6) as step_seconds,
        -- The percentages of all GPUs of a task are added up; where neither the sum over tasks nor their number is
        -- printed, a task for each GPU is assumed.
        coalesce(
            steps.total_ratio,
            steps.gpu_util_ratio * case when isfinite(steps."NTasks") then steps."NTasks" end,
            least(steps.gpu_util_ratio, 1) * coalesce(nullif(case when isfinite(steps.gpus) then steps.gpus end, 0), runs.gpus)
        ) as used_gpus
    from runs
    inner join steps on runs.cluster_id = steps.cluster_id and runs.job_id = steps.own_job_id

),

taken as (

    select
        *,
        (epoch_us(started_at) / 1e6) as begin_seconds,
        least((epoch_us(started_at) / 1e6) + step_seconds, (epoch_us(run_ended_at) / 1e6)) as end_seconds
    from paired
    where run_started_at <= started_at and run_ended_at > started_at

),

spread as (

    select
        *,
        unnest(string_split(step_nodes, ',')) as item,
        length(step_nodes) - length(replace(step_nodes, ',', '')) + 1 as items
    from taken

),

placed as (

    select
        nodes.worker_key,
        nodes.gpus,
        spread.begin_seconds,
        spread.end_seconds,
        spread.used_gpus / spread.items as used_gpus
    from spread
    inner join nodes
        on
            spread.cluster_id = nodes.cluster_id
            and spread.job_id = nodes.job_id
            and spread.run = nodes.run
            and spread.item = coalesce(nodes.node, '')

),

edges as (

    select
        worker_key,
        gpus,
        begin_seconds as at_seconds,
        used_gpus as change
    from placed

    union all

    select
        worker_key,
        gpus,
        end_seconds as at_seconds,
        -used_gpus as change
    from placed

),

levels as (

    select
        worker_key,
        gpus,
        sum(change) over by_time as used_gpus,
        lead(at_seconds) over by_time - at_seconds as seconds
    from edges
    window by_time as (partition by worker_key order by at_seconds)

),

used_seconds as (

    select
        worker_key,
        sum(least(greatest(used_gpus, 0), gpus) * seconds) as gpu_seconds
    from levels
    group by worker_key

),

known_runs as (

    select distinct
        cluster_id,
        job_id,
        run
    from taken

),

used as (

    select
        nodes.worker_key,
        try_cast(try_cast(try_cast(nodes.summary as json) as map(varchar, json))['total_time'] as double)
        / nullif(try_cast(try_cast(try_cast(nodes.js1 as json) as map(varchar, json))['total_time'] as double), 0) as used_cores,
        coalesce(
            list_sum(map_values(try_cast(try_cast(try_cast(nodes.summary as json) as map(varchar, json))['gpu_utilization'] as map(varchar, double)))) / 100,
            -- Where the dump names no node, of all that the summary has.
            case
                when nodes.node is null
                    then list_sum([
        list_sum(map_values(try_cast(json_extract(member, '$."gpu_utilization"') as map(varchar, double))))
        for member in map_values(try_cast(try_cast(try_cast(try_cast(nodes.js1 as json) as map(varchar, json))['nodes'] as json) as map(varchar, json)))
    ]) / 100
            end,
            case
                when known_runs.run is not null
                    then
                        coalesce(used_seconds.gpu_seconds, 0)
                        / ((epoch_us(nodes.ended_at) / 1e6) - (epoch_us(nodes.started_at) / 1e6))
            end
        ) as used_gpus,
        try_cast(try_cast(try_cast(nodes.summary as json) as map(varchar, json))['used_memory'] as double) as memory_bytes,
        list_sum(map_values(try_cast(try_cast(try_cast(nodes.summary as json) as map(varchar, json))['gpu_used_memory'] as map(varchar, double)))) as gpu_memory_bytes
    from nodes
    left join used_seconds on nodes.worker_key = used_seconds.worker_key
    left join known_runs
        on nodes.cluster_id = known_runs.cluster_id and nodes.job_id = known_runs.job_id and nodes.run = known_runs.run

),

-- The summary is a comment, which anybody may have written.
plausible as (

    select
        worker_key,
        case when used_cores between 0 and 1e9 then used_cores end as used_cores,
        case when used_gpus between 0 and 1e7 then used_gpus end as used_gpus,
        case when memory_bytes between 0 and 1e17 then memory_bytes end as memory_bytes,
        case when gpu_memory_bytes between 0 and 1e17 then gpu_memory_bytes end as gpu_memory_bytes
    from used

)

select
    worker_key,
    used_cores,
    used_gpus,
    cast(null as bigint) as mean_memory_bytes,
    cast(memory_bytes as bigint) as peak_memory_bytes,
    cast(null as bigint) as mean_gpu_memory_bytes,
    cast(gpu_memory_bytes as bigint) as peak_gpu_memory_bytes,
    cast(null as double) as network_read_bytes,
    cast(null as double) as network_written_bytes
from plausible
where coalesce(used_cores, used_gpus, memory_bytes, gpu_memory_bytes) is not null
