-- What runs of Slurm used on each node: as jobstats summed it up, or else by gres/gpuutil of their steps, each for its
-- own time and spread evenly over its own nodes. Slurm measures the processes of each step apart: steps that run at the
-- same time add up, to no more than the GPUs of the node. In the time of no step nothing is used. What a step used is
-- written when it ends: nothing is known of a run until it has ended.

{% set total_percent = try_number(extract_text('"TRESUsageInTot"', '(?:^|,)gres/gpuutil=([0-9]{1,9})(?:,|$)')) %}

with nodes as (

    select * from {{ ref('slurm_nodes') }}
    where started_at is not null

),

runs as (

    select * from {{ ref('slurm_tries') }}
    where ended_at > started_at

),

measured as (

    select
        *,
        {{ total_percent }} / 100 as total_ratio
    from {{ ref('slurm_rows') }}
    where step is not null and started_at is not null and coalesce(gpu_util_ratio, {{ total_percent }}) is not null

),

steps as (

    {{ newest(
        'measured',
        surrogate_key(['cluster_id', 'own_job_id', 'step', 'started_at']),
        'ended_at desc nulls last, total_ratio desc nulls last, gpu_util_ratio desc nulls last'
    ) }}

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
            else {{ earlier_instant_of_local('steps."Start"', 'steps.started_at', 'steps.zone') }}
        end as started_at,
        {{ seconds_of('steps.ended_at') }} - {{ seconds_of('steps.started_at') }} as step_seconds,
        -- The percentages of all GPUs of a task are added up; where neither the sum over tasks nor their number is
        -- printed, a task for each GPU is assumed.
        coalesce(
            steps.total_ratio,
            steps.gpu_util_ratio * {{ finite('steps."NTasks"') }},
            least(steps.gpu_util_ratio, 1) * coalesce(nullif({{ finite('steps.gpus') }}, 0), runs.gpus)
        ) as used_gpus
    from runs
    inner join steps on runs.cluster_id = steps.cluster_id and runs.job_id = steps.own_job_id

),

taken as (

    select
        *,
        {{ seconds_of('started_at') }} as begin_seconds,
        {{ earliest([seconds_of('started_at') ~ ' + step_seconds', seconds_of('run_ended_at')]) }} as end_seconds
    from paired
    where run_started_at <= started_at and run_ended_at > started_at

),

spread as (

    select
        *,
        {{ each_item('step_nodes') }} as item,
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
        {{ json_number(json_member('nodes.summary', "'total_time'")) }}
        / nullif({{ json_number(json_member('nodes.js1', "'total_time'")) }}, 0) as used_cores,
        coalesce(
            {{ json_sum(json_member('nodes.summary', "'gpu_utilization'")) }} / 100,
            -- Where the dump names no node, of all that the summary has.
            case
                when nodes.node is null
                    then {{ json_sum_within(json_member('nodes.js1', "'nodes'"), 'gpu_utilization') }} / 100
            end,
            case
                when known_runs.run is not null
                    then
                        coalesce(used_seconds.gpu_seconds, 0)
                        / ({{ seconds_of('nodes.ended_at') }} - {{ seconds_of('nodes.started_at') }})
            end
        ) as used_gpus,
        {{ json_number(json_member('nodes.summary', "'used_memory'")) }} as memory_bytes,
        {{ json_sum(json_member('nodes.summary', "'gpu_used_memory'")) }} as gpu_memory_bytes
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
        case when {{ is_plausible('memory_bytes') }} then memory_bytes end as memory_bytes,
        case when {{ is_plausible('gpu_memory_bytes') }} then gpu_memory_bytes end as gpu_memory_bytes
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
