-- A worker that still ran is told of again: of the rows of one device the one with the highest peaks, which only grow,
-- is the last. Without a device, rows that say the same are one: two GPUs that do cannot be told apart.



with  __dbt__cte__slurm_rows as (
-- What sacct says of jobs and of their steps, in our words. The tasks of an array that still wait are one job: the rest
-- of it.

with dumped as (

    select * from "landed"."main"."bronze_slurm_jobs"

),

known as (

    select * from "landed"."main"."known_clusters"

),

usual as (

    select coalesce(max(time_zone), 'UTC') as usual_zone
    from known
    where
        cluster_id in (
            select coalesce(lower(jobs."Cluster"), 'slurm')
            from "landed"."main"."bronze_slurm_jobs" as jobs
        )

),

named as (

    select
        *,
        coalesce(lower("Cluster"), 'slurm') as cluster_id,
        coalesce(array_task_id like '[%', false) as is_rest,
        case
        when base_state = 'COMPLETED' then 'succeeded'
        when base_state in ('FAILED', 'OUT_OF_MEMORY', 'LAUNCH_FAILED', 'RECONFIG_FAIL') then 'failed'
        when base_state in ('NODE_FAIL', 'BOOT_FAIL') then 'node_fail'
        when base_state in ('TIMEOUT', 'DEADLINE') then 'timeout'
        when base_state in ('PREEMPTED', 'REQUEUED', 'REVOKED') then 'interrupted'
        when base_state = 'CANCELLED' or base_state like 'CANCELLED by %' then 'cancelled'
        when
            base_state in (
                'RUNNING', 'COMPLETING', 'CONFIGURING', 'POWER_UP_NODE', 'RESIZING', 'SIGNALING', 'STAGE_OUT', 'STOPPED',
                'SUSPENDED'
            )
            then 'running'
        when
            base_state in (
                'PENDING', 'REQUEUE_FED', 'REQUEUE_HOLD', 'RESV_DEL_HOLD', 'SPECIAL_EXIT', 'EXPEDITING'
            )
            then 'waiting'
        else 'unknown'
    end as status
    from dumped

),

zoned as (

    select
        named.*,
        case when named.is_rest then named.array_job_id || '_[]' else named.job_id end as own_job_id,
        known.gpu_type as known_gpu_type,
        coalesce(known.time_zone, 'UTC') as time_zone,
        usual.usual_zone
    from named
    left join known on named.cluster_id = known.cluster_id
    cross join usual

),

-- Of a local time that comes twice the later instant is read.
later as (

    select
        *,
        case when isfinite("ElapsedRaw") then "ElapsedRaw" end as elapsed_seconds,
        case
        when time_zone = usual_zone then timezone(usual_zone, "Submit")
        else timezone(time_zone, "Submit")
    end as submitted_at,
        case
        when time_zone = usual_zone then timezone(usual_zone, "Eligible")
        else timezone(time_zone, "Eligible")
    end as eligible_at,
        case
            -- sacct may say when a job that waits is expected to begin.
            when status = 'waiting' then null
            -- Of a job that was cancelled as it waited some versions say that it began as it ended.
            when
                status in ('cancelled', 'timeout', 'interrupted') and "Start" = "End" and coalesce("ElapsedRaw", 0) = 0
                and nodes is null and coalesce(gpus, 0) = 0
                then null
            else case
        when time_zone = usual_zone then timezone(usual_zone, "Start")
        else timezone(time_zone, "Start")
    end
        end as later_started_at,
        case
        when time_zone = usual_zone then timezone(usual_zone, "End")
        else timezone(time_zone, "End")
    end as later_ended_at
    from zoned

),

compared as (

    select
        *,
        epoch(later_ended_at) - epoch(later_started_at)
        - coalesce(elapsed_seconds, 0) as excess_seconds
    from later

),

-- A run lasts as long as sacct says that it ran, and longer if it was suspended, but no shorter.
begun as (

    select
        *,
        coalesce(
            case
                when excess_seconds < 0
                    then case
        when
            least(
            timezone(time_zone, "Start" - interval 1 day) + interval 24 hour,
            timezone(time_zone, "Start" + interval 1 day) - interval 24 hour
        ) < later_started_at
            and (
                timezone(time_zone, least(
            timezone(time_zone, "Start" - interval 1 day) + interval 24 hour,
            timezone(time_zone, "Start" + interval 1 day) - interval 24 hour
        )) = "Start" or timezone(time_zone, later_started_at) != "Start"
            )
            then least(
            timezone(time_zone, "Start" - interval 1 day) + interval 24 hour,
            timezone(time_zone, "Start" + interval 1 day) - interval 24 hour
        )
    end
            end,
            later_started_at
        ) as started_at,
        case
            when excess_seconds > 0 and elapsed_seconds is not null
                then case
        when
            least(
            timezone(time_zone, "End" - interval 1 day) + interval 24 hour,
            timezone(time_zone, "End" + interval 1 day) - interval 24 hour
        ) < later_ended_at
            and (
                timezone(time_zone, least(
            timezone(time_zone, "End" - interval 1 day) + interval 24 hour,
            timezone(time_zone, "End" + interval 1 day) - interval 24 hour
        )) = "End" or timezone(time_zone, later_ended_at) != "End"
            )
            then least(
            timezone(time_zone, "End" - interval 1 day) + interval 24 hour,
            timezone(time_zone, "End" + interval 1 day) - interval 24 hour
        )
    end
        end as earlier_ended_at
    from compared

),

ended as (

    select
        *,
        case
            when epoch(earlier_ended_at) - epoch(started_at) >= elapsed_seconds
                then earlier_ended_at
            else later_ended_at
        end as told_ended_at
    from begun

)

select
    * replace (
        
            -- Nothing is submitted after it began.
            coalesce(
                case
                    when submitted_at > started_at
                        then case
        when
            least(
            timezone(time_zone, "Submit" - interval 1 day) + interval 24 hour,
            timezone(time_zone, "Submit" + interval 1 day) - interval 24 hour
        ) < submitted_at
            and (
                timezone(time_zone, least(
            timezone(time_zone, "Submit" - interval 1 day) + interval 24 hour,
            timezone(time_zone, "Submit" + interval 1 day) - interval 24 hour
        )) = "Submit" or timezone(time_zone, submitted_at) != "Submit"
            )
            then least(
            timezone(time_zone, "Submit" - interval 1 day) + interval 24 hour,
            timezone(time_zone, "Submit" + interval 1 day) - interval 24 hour
        )
    end
                end,
                submitted_at
            ) as submitted_at,
        
            -- Nothing is submitted after it began.
            coalesce(
                case
                    when eligible_at > started_at
                        then case
        when
            least(
            timezone(time_zone, "Eligible" - interval 1 day) + interval 24 hour,
            timezone(time_zone, "Eligible" + interval 1 day) - interval 24 hour
        ) < eligible_at
            and (
                timezone(time_zone, least(
            timezone(time_zone, "Eligible" - interval 1 day) + interval 24 hour,
            timezone(time_zone, "Eligible" + interval 1 day) - interval 24 hour
        )) = "Eligible" or timezone(time_zone, eligible_at) != "Eligible"
            )
            then least(
            timezone(time_zone, "Eligible" - interval 1 day) + interval 24 hour,
            timezone(time_zone, "Eligible" + interval 1 day) - interval 24 hour
        )
    end
                end,
                eligible_at
            ) as eligible_at
        
    ),
    case
        when
            status not in ('running', 'waiting', 'unknown')
            and elapsed_seconds is not null
            and coalesce(told_ended_at < started_at, started_at is not null)
            then started_at + to_seconds(elapsed_seconds)
        else told_ended_at
    end as ended_at
from ended
),  __dbt__cte__slurm_tries as (
-- Every time that Slurm ran a job: one that was requeued began anew. A row that waits goes once its job has begun.

with jobs as (

    select * from __dbt__cte__slurm_rows
    where step is null

),

-- The last task of an array that begins takes the number of the array: then none of it waits any more.
used_up as (

    select cast(hash(cluster_id, array_job_id) >> 1 as bigint) as array_key
    from jobs
    where not is_rest and raw_job_id = array_job_id

),

awaited as (

    select *
    from jobs
    where
        not is_rest
        or cast(hash(cluster_id, array_job_id) >> 1 as bigint) not in (select used_up.array_key from used_up)

),

-- By the local time: a row of a run that is not over does not tell which of two hours it began in.
told_once as (

    
    with keyed as not materialized (

        select
            *,
            cast(hash(cluster_id, own_job_id, case when started_at is not null then "Start" end) >> 1 as bigint) as row_key
        from awaited

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
    qualify row_number() over (partition by row_key order by ended_at desc nulls last, case status when 'succeeded' then 1 when 'failed' then 2 when 'node_fail' then 3 when 'timeout' then 4 when 'interrupted' then 5 when 'cancelled' then 6 when 'running' then 7 when 'waiting' then 8 when 'unknown' then 9 end, submitted_at desc nulls last, try_cast(nullif(regexp_extract(array_task_id, '([0-9]+)', 1), '') as double) desc nulls last, keyed) = 1


),

begins as (

    select
        cluster_id,
        own_job_id,
        max(started_at) as last_started_at
    from told_once
    group by cluster_id, own_job_id

),

numbered as (

    select
        told_once.*,
        row_number() over by_begin as run,
        lead(told_once.own_job_id) over by_begin is not null as is_followed,
        lead(told_once.submitted_at) over by_begin as next_submitted_at,
        lead(told_once.started_at) over by_begin as next_started_at
    from told_once
    inner join begins on told_once.cluster_id = begins.cluster_id and told_once.own_job_id = begins.own_job_id
    where
        told_once.started_at is not null
        or begins.last_started_at is null
        or told_once.submitted_at > begins.last_started_at
    window
        by_begin as (
            partition by told_once.cluster_id, told_once.own_job_id order by told_once.started_at asc nulls last
        )

)

select
    cluster_id,
    own_job_id as job_id,
    run,
    "User" as user_id,
    coalesce("User" || '/' || case when not (
        lower("JobName") in (
            'allocation', 'batch', 'bash', 'csh', 'fish', 'interactive', 'ipython', 'jupyter', 'jupyter-lab',
            'jupyter-notebook', 'jupyterhub', 'jupyterlab', 'ksh', 'matlab', 'notebook', 'salloc', 'sbatch', 'sh', 'sleep',
            'spawner-jupyterhub', 'srun', 'tcsh', 'torchrun', 'tmux', 'wrap', 'zsh'
        )
        or nullif(regexp_extract(lower("JobName"), '^(python[0-9.]*|sys/dashboard/.*)$', 1), '') is not null
    ) then "JobName" end, "User") as group_id,
    "Account" as account_id,
    gpu_type as requested_gpu_type,
    -- A job that was submitted anew runs no longer as it did, though no dump may tell how that ended.
    case when status = 'running' and ended_at is null and is_followed then 'interrupted' else status end as status,
    submitted_at,
    coalesce(eligible_at, submitted_at) as launched_at,
    started_at,
    coalesce(
        ended_at,
        case when next_submitted_at > started_at then next_submitted_at end,
        next_started_at
    ) as ended_at,
    greatest(coalesce(cast(case when isfinite(coalesce("NNodes", "AllocNodes")) then coalesce("NNodes", "AllocNodes") end as bigint), 1), 1) as node_count,
    coalesce(case when isfinite("ReqCPUS") then "ReqCPUS" end, case when isfinite("NCPUS") then "NCPUS" end, case when isfinite("AllocCPUS") then "AllocCPUS" end) as cores,
    case when isfinite(memory_bytes) then memory_bytes end as memory_bytes,
    coalesce(case when isfinite(requested_gpus) then requested_gpus end, case when isfinite(gpus) then gpus end, 0) as requested_gpus,
    coalesce(case when isfinite(gpus) then gpus end, case when isfinite(requested_gpus) then requested_gpus end, 0) as gpus,
    case
        when coalesce(gpus, requested_gpus) > 0
            then coalesce(case when gpu_type not like '%,%' then gpu_type end, known_gpu_type)
    end as gpu_type,
    nodes,
    js1
from numbered
),  __dbt__cte__slurm_nodes as (
-- The nodes of each run of Slurm; one without a name where the dump has none. How many of its GPUs a node has, only
-- jobstats says; what it does not place is spread evenly.

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

told as (

    select
        *,
        try_cast(try_cast(try_cast(try_cast(js1 as json) as map(varchar, json))['nodes'] as json) as map(varchar, json))[item] as summary
    from named

),

counted as (

    select
        *,
        nullif(cardinality(try_cast(try_cast(try_cast(summary as json) as map(varchar, json))['gpu_utilization'] as map(varchar, double))), 0) as told_gpus
    from told

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
    js1,
    summary
from summed
),  __dbt__cte__slurm_usage as (
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
            timezone(steps.time_zone, steps."Start" - interval 1 day) + interval 24 hour,
            timezone(steps.time_zone, steps."Start" + interval 1 day) - interval 24 hour
        ) < steps.started_at
            and (
                timezone(steps.time_zone, least(
            timezone(steps.time_zone, steps."Start" - interval 1 day) + interval 24 hour,
            timezone(steps.time_zone, steps."Start" + interval 1 day) - interval 24 hour
        )) = steps."Start" or timezone(steps.time_zone, steps.started_at) != steps."Start"
            )
            then least(
            timezone(steps.time_zone, steps."Start" - interval 1 day) + interval 24 hour,
            timezone(steps.time_zone, steps."Start" + interval 1 day) - interval 24 hour
        )
    end
        end as started_at,
        epoch(steps.ended_at) - epoch(steps.started_at) as step_seconds,
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
        epoch(started_at) as begin_seconds,
        least(epoch(started_at) + step_seconds, epoch(run_ended_at)) as end_seconds
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
                        / (epoch(nodes.ended_at) - epoch(nodes.started_at))
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
),  __dbt__cte__owner_jobs as (
-- The job behind the name that telemetry has for the holder of a GPU. A node knows a task of an array, or a part of a
-- heterogeneous job, by its raw number only.

select
    cluster_id,
    'slurm' as owner_kind,
    raw_job_id as owner_id,
    cast(hash(cluster_id, max(own_job_id)) >> 1 as bigint) as job_key
from __dbt__cte__slurm_rows
where step is null and not is_rest and raw_job_id is not null
group by cluster_id, raw_job_id
),  __dbt__cte__sampled_usage as (
-- What attempts used by the samples of the GPUs of their machine. A GPU is an attempt's if its samples name the job;
-- where they name fewer than it holds and no other attempt holds GPUs of the machine, the busiest that name nobody else
-- are its own, too. Held without a name beside other attempts, a GPU cannot be assigned: then nothing is known.

with samples as (

    select
        samples.machine_key,
        samples.gpu_id,
        owner_jobs.job_key,
        coalesce(samples.owner_kind in ('nobody', 'unknown', 'unattributed'), true) as is_unnamed,
        epoch(samples.sampled_at) as at_seconds,
        samples.covers_seconds,
        samples.busy_ratio,
        samples.memory_used_bytes
    from "lake"."main"."silver_gpu_samples" as samples
    left join __dbt__cte__owner_jobs as owner_jobs
        on
            samples.cluster_id = owner_jobs.cluster_id
            and samples.owner_kind = owner_jobs.owner_kind
            and samples.owner_id = owner_jobs.owner_id
    where
        samples.covers_seconds > 0
        and samples.busy_ratio is not null
        -- A board that is cut into MIG instances is what they are.
        and samples.gpu_id not in (
            select parts.parent_gpu_id
            from "lake"."main"."silver_gpu_samples" as parts
            where parts.parent_gpu_id is not null
        )

),

ends as (

    select
        machine_key,
        max(at_seconds + covers_seconds) as seen_until_seconds
    from samples
    group by machine_key

),

attempts as (

    select
        instances.worker_key,
        instances.job_key,
        instances.machine_key,
        instances.gpus,
        epoch(instances.started_at) as begin_seconds,
        coalesce(epoch(instances.ended_at), ends.seen_until_seconds) as end_seconds
    from "lake"."main"."silver_instances" as instances
    inner join ends on instances.machine_key = ends.machine_key
    where instances.gpus > 0 and instances.started_at is not null

),

neighbours as (

    select
        *,
        coalesce(max(end_seconds) over earlier <= begin_seconds, true)
        and coalesce(min(begin_seconds) over following >= end_seconds, true) as is_alone
    from attempts
    where end_seconds > begin_seconds
    window
        earlier as (
            partition by machine_key order by begin_seconds, worker_key
            rows between unbounded preceding and 1 preceding
        ),
        following as (
            partition by machine_key order by begin_seconds, worker_key
            rows between 1 following and unbounded following
        )

),

-- Samples meet attempts by machine and hour: few pairs, where a comparison of times alone would look at all of them.
hours as (

    select
        *,
        unnest(range(cast(floor((begin_seconds + 0) / 3600) as bigint), cast(floor((end_seconds + 0) / 3600) as bigint) + 1)) as hour_number
    from neighbours

),

pairs as (

    select
        hours.worker_key,
        hours.gpus,
        hours.is_alone,
        samples.gpu_id,
        coalesce(samples.job_key = hours.job_key, false) as is_named,
        least(samples.covers_seconds, hours.end_seconds - samples.at_seconds) as seconds,
        samples.busy_ratio,
        samples.memory_used_bytes
    from samples
    inner join hours
        on
            samples.machine_key = hours.machine_key
            and cast(floor((samples.at_seconds + 0) / 3600) as bigint) = hours.hour_number
    where
        samples.at_seconds >= hours.begin_seconds
        and samples.at_seconds < hours.end_seconds
        and (samples.is_unnamed or samples.job_key = hours.job_key)

),

-- A GPU that is the job's for a part of the time only was held, and not used, for the rest of it.
by_gpu as (

    select
        worker_key,
        gpu_id,
        max(gpus) as gpus,
        bool_or(is_alone) as is_alone,
        bool_or(is_named) as is_named,
        sum(seconds) as seconds,
        sum(case when is_named or is_alone then busy_ratio * seconds else 0 end) as busy_seconds,
        sum(memory_used_bytes * seconds) / sum(case when memory_used_bytes is not null then seconds end)
            as mean_memory_bytes,
        max(memory_used_bytes) as peak_memory_bytes
    from pairs
    group by worker_key, gpu_id

),

ranked as (

    select
        *,
        row_number() over (
            partition by worker_key order by is_named desc, busy_seconds desc, gpu_id asc
        ) as position,
        bool_or(is_named) over (partition by worker_key) as has_name
    from by_gpu

),

chosen as (

    select * from ranked
    where position <= ceil(gpus) and (is_alone or has_name)

)

select
    worker_key,
    cast(null as double) as used_cores,
    max(gpus) * sum(busy_seconds) / sum(seconds) as used_gpus,
    cast(null as bigint) as mean_memory_bytes,
    cast(null as bigint) as peak_memory_bytes,
    cast(sum(mean_memory_bytes) as bigint) as mean_gpu_memory_bytes,
    cast(sum(peak_memory_bytes) as bigint) as peak_gpu_memory_bytes,
    cast(null as double) as network_read_bytes,
    cast(null as double) as network_written_bytes
from chosen
group by worker_key
), sensors as not materialized (

    select
        *,
        cast(hash(worker_name) >> 1 as bigint) as worker_key
    from "landed"."main"."bronze_sensor_table"

),

slurm as (

    select * from __dbt__cte__slurm_usage

),

sampled as (

    select * from __dbt__cte__sampled_usage

),

-- Slurm's own summary covers the whole run; samples fill in what it lacks.
scheduled as (

    select
        coalesce(slurm.worker_key, sampled.worker_key) as worker_key,
        coalesce(slurm.used_cores, sampled.used_cores) as used_cores,
        coalesce(slurm.used_gpus, sampled.used_gpus) as used_gpus,
        coalesce(slurm.mean_memory_bytes, sampled.mean_memory_bytes) as mean_memory_bytes,
        coalesce(slurm.peak_memory_bytes, sampled.peak_memory_bytes) as peak_memory_bytes,
        coalesce(slurm.mean_gpu_memory_bytes, sampled.mean_gpu_memory_bytes) as mean_gpu_memory_bytes,
        coalesce(slurm.peak_gpu_memory_bytes, sampled.peak_gpu_memory_bytes) as peak_gpu_memory_bytes,
        coalesce(slurm.network_read_bytes, sampled.network_read_bytes) as network_read_bytes,
        coalesce(slurm.network_written_bytes, sampled.network_written_bytes) as network_written_bytes
    from slurm
    full outer join sampled on slurm.worker_key = sampled.worker_key

),

-- Nearly every worker has one row; only those of the others are compared.
workers as (

    select
        worker_key,
        max(case when isfinite(cpu_usage) then cpu_usage end) / 100 as used_cores,
        sum(case when isfinite(gpu_wrk_util) then gpu_wrk_util end) / 100 as used_gpus,
        max(cast(case when isfinite(avg_mem) then avg_mem end * 1073741824 as bigint)) as mean_memory_bytes,
        max(cast(case when isfinite(max_mem) then max_mem end * 1073741824 as bigint)) as peak_memory_bytes,
        cast(sum(cast(case when isfinite(avg_gpu_wrk_mem) then avg_gpu_wrk_mem end * 1073741824 as bigint)) as bigint) as mean_gpu_memory_bytes,
        cast(sum(cast(case when isfinite(max_gpu_wrk_mem) then max_gpu_wrk_mem end * 1073741824 as bigint)) as bigint) as peak_gpu_memory_bytes,
        max(case when isfinite(read) then read end) as network_read_bytes,
        max(case when isfinite(write) then write end) as network_written_bytes,
        count(*) as rows
    from sensors
    group by worker_key

),

repeated as (

    select worker_key
    from workers
    where rows > 1

),

several as (

    select * from sensors
    where worker_key in (select repeated.worker_key from repeated)

),

told_once as (

    
    with keyed as not materialized (

        select
            *,
            cast(hash(worker_key, gpu_name, case when gpu_name is null then cast(hash(gpu_wrk_util, avg_gpu_wrk_mem, max_gpu_wrk_mem) >> 1 as bigint) end) >> 1 as bigint) as row_key
        from several

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
    qualify row_number() over (partition by row_key order by max_gpu_wrk_mem desc nulls last, max_mem desc nulls last, keyed) = 1


),

final as (

    select * exclude (rows)
    from workers
    where rows = 1

    union all

    select
        worker_key,
        max(case when isfinite(cpu_usage) then cpu_usage end) / 100 as used_cores,
        sum(case when isfinite(gpu_wrk_util) then gpu_wrk_util end) / 100 as used_gpus,
        max(cast(case when isfinite(avg_mem) then avg_mem end * 1073741824 as bigint)) as mean_memory_bytes,
        max(cast(case when isfinite(max_mem) then max_mem end * 1073741824 as bigint)) as peak_memory_bytes,
        cast(sum(cast(case when isfinite(avg_gpu_wrk_mem) then avg_gpu_wrk_mem end * 1073741824 as bigint)) as bigint) as mean_gpu_memory_bytes,
        cast(sum(cast(case when isfinite(max_gpu_wrk_mem) then max_gpu_wrk_mem end * 1073741824 as bigint)) as bigint) as peak_gpu_memory_bytes,
        max(case when isfinite(read) then read end) as network_read_bytes,
        max(case when isfinite(write) then write end) as network_written_bytes
    from told_once
    group by worker_key

    union all

    select * from scheduled

)

select * from final

-- test: in_range_silver_instance_usage_0__used_cores(used_cores) error
where false
    or used_cores < 0

-- test: in_range_silver_instance_usage_0__used_gpus(used_gpus) error
where false
    or used_gpus < 0

-- test: not_null_silver_instance_usage_worker_key(worker_key) error
where worker_key is null

-- test: unique_silver_instance_usage_worker_key(worker_key) error
select
    worker_key as unique_field,
    count(*) as n_records

from "lake"."main"."silver_instance_usage"
where worker_key is not null
group by worker_key
having count(*) > 1
