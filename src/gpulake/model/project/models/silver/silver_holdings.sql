-- A third of the attempts lack a begin or an end: nearly every failed one, every interrupted one. What bounds them is
-- drawn from the worker's own window, the next or the last try of the instance, the gang, the task and the job.

{% set attempt_columns -%}
    cluster_id,
        job_key,
        task_key,
        instance_key,
        worker_key,
        machine_key,
        gpu_type,
        attempt,
        status,
        gpus
{%- endset %}

with instances as not materialized (

    select * from {{ ref('silver_instances') }}
    where gpus > 0 and status not in ('waiting', 'unknown')

),

checkpoints as (

    select
        {{ job_key("coalesce(lower(cluster), 'slurm')", 'job') }} as job_key,
        saved_at
    from {{ source('landed', 'bronze_checkpoints') }}

),

tasks as (

    select * from {{ ref('silver_tasks') }}

),

jobs as (

    select * from {{ ref('silver_jobs') }}

),

clusters as (

    select * from {{ ref('silver_clusters') }}

),

known as (

    select * from {{ source('landed', 'known_clusters') }}

),

-- Without the rows that say nothing the engine takes this for the smaller side of the join, which it keeps in memory.
usage as (

    select
        worker_key,
        used_gpus
    from {{ ref('silver_instance_usage') }}
    where used_gpus is not null

),

parameters as (

    select * from {{ source('landed', 'parameters') }}

),

gaps as (

    select * from instances
    where started_at is null or ended_at is null or ended_at < started_at

),

-- Of an end before its begin it is not known which is wrong; the begin is kept.
tries as (

    select
        instance_key,
        attempt,
        lag(coalesce(ended_at, started_at)) over by_attempt as last_try_until,
        lead(coalesce(started_at, ended_at)) over by_attempt as next_try_from
    from instances
    where instance_key in (select gaps.instance_key from gaps)
    window by_attempt as (partition by instance_key order by attempt)

),

-- One failure interrupts its gang.
gangs as (

    select
        task_key,
        min(started_at) as first_started_at,
        min(case when {{ is_lost('status') }} then ended_at end) as first_stopped_at
    from instances
    where task_key in (select gaps.task_key from gaps)
    group by task_key

),

own_windows as (

    select
        worker_key,
        min(window_started_at) as window_started_at,
        max(window_ended_at) as window_ended_at
    from {{ ref('silver_gpu_timeseries') }}
    where worker_key in (select gaps.worker_key from gaps)
    group by worker_key

),

-- Of what was seen to run in one snapshot and was gone in the next.
sightings as (

    select
        worker_key,
        inferred_ended_at as sighted_until
    from {{ ref('silver_pod_runs') }}
    where ended_at is null and inferred_ended_at is not null

),

evidence as (

    select
        gaps.* replace (
            case when gaps.ended_at < gaps.started_at then null else gaps.ended_at end as ended_at
        ),
        own_windows.window_started_at,
        own_windows.window_ended_at,
        sightings.sighted_until,
        tries.last_try_until,
        tries.next_try_from,
        gangs.first_started_at,
        gangs.first_stopped_at,
        tasks.launched_at as task_launched_at,
        tasks.ended_at as task_ended_at,
        jobs.submitted_at as job_submitted_at,
        jobs.ended_at as job_ended_at,
        -- The PAI trace calls attempts running that began weeks before its end, more than the cluster could hold:
        -- only those of its last day are believed.
        case
            when
                gaps.status = 'running'
                and (
                    not coalesce(known.has_stale_running, false)
                    or {{ later('coalesce(gaps.started_at, tasks.launched_at, jobs.submitted_at)', 86400) }}
                    > clusters.observed_until
                )
                then clusters.observed_until
        end as censored_at
    from gaps
    left join own_windows on gaps.worker_key = own_windows.worker_key
    left join sightings on gaps.worker_key = sightings.worker_key
    left join tries on gaps.instance_key = tries.instance_key and gaps.attempt = tries.attempt
    left join gangs on gaps.task_key = gangs.task_key
    left join tasks on gaps.task_key = tasks.task_key
    left join jobs on gaps.job_key = jobs.job_key
    left join clusters on gaps.cluster_id = clusters.cluster_id
    left join known on gaps.cluster_id = known.cluster_id

),

begun as (

    select
        *,
        coalesce(
            started_at,
            window_started_at,
            {{ latest([
                not_after('last_try_until', 'ended_at'), not_after('first_started_at', 'ended_at'),
                not_after('task_launched_at', 'ended_at'), not_after('job_submitted_at', 'ended_at')
            ]) }},
            ended_at
        ) as held_from
    from evidence

),

ended as (

    select
        *,
        coalesce(
            ended_at,
            window_ended_at,
            {{ not_before('sighted_until', 'held_from') }},
            {{ earliest([
                not_before('next_try_from', 'held_from'), not_before('first_stopped_at', 'held_from'),
                not_before('task_ended_at', 'held_from'), not_before('job_ended_at', 'held_from')
            ]) }},
            censored_at,
            held_from
        ) as held_until
    from begun

),

inferred as (

    select
        *,
        case
            when started_at is not null then 'recorded'
            when held_from = window_started_at then 'metric'
            when held_from = last_try_until then 'retry'
            when held_from = first_started_at then 'gang'
            when held_from = task_launched_at then 'task'
            when held_from = job_submitted_at then 'job'
            else 'none'
        end as start_basis,
        case
            when ended_at is not null then 'recorded'
            when held_until = window_ended_at then 'metric'
            when held_until = sighted_until then 'snapshot'
            when held_until = next_try_from then 'retry'
            when held_until = first_stopped_at then 'gang'
            when held_until = task_ended_at then 'task'
            when held_until = job_ended_at then 'job'
            when held_until = censored_at then 'censored'
            else 'none'
        end as end_basis
    from ended
    where held_from is not null

),

holdings as (

    select
        {{ attempt_columns }},
        started_at as held_from,
        ended_at as held_until,
        'recorded' as start_basis,
        'recorded' as end_basis
    from instances
    where ended_at >= started_at

    union all

    select
        {{ attempt_columns }},
        held_from,
        {{ latest(['held_from', 'held_until']) }} as held_until,
        start_basis,
        end_basis
    from inferred

),

-- Of a lost attempt, what came after the last checkpoint of its job.
saved as (

    select
        holdings.instance_key,
        holdings.attempt,
        max(checkpoints.saved_at) as saved_at
    from holdings
    inner join checkpoints on holdings.job_key = checkpoints.job_key and holdings.held_until >= checkpoints.saved_at
    where {{ is_lost('holdings.status') }}
    group by holdings.instance_key, holdings.attempt

),

sensed as (

    select
        holdings.*,
        usage.used_gpus,
        case
            when usage.used_gpus is null then 'unobserved'
            when usage.used_gpus < parameters.idle_gpu_ratio * holdings.gpus then 'idle'
            else 'used'
        end as use_bucket
    from holdings
    left join usage on holdings.worker_key = usage.worker_key
    cross join parameters

),

final as (

    select
        sensed.cluster_id,
        sensed.job_key,
        sensed.task_key,
        sensed.instance_key,
        sensed.attempt,
        sensed.machine_key,
        sensed.gpu_type,
        sensed.status,
        sensed.gpus,
        sensed.used_gpus,
        coalesce({{ lost_bucket('sensed.status') }}, sensed.use_bucket) as bucket,
        sensed.use_bucket,
        sensed.held_from,
        sensed.held_until,
        case
            when {{ is_lost('sensed.status') }} then {{ latest(['sensed.held_from', 'saved.saved_at']) }}
        end as lost_from,
        saved.saved_at is not null as has_checkpoint,
        {{ seconds_of('sensed.held_until') }} - {{ seconds_of('sensed.held_from') }} as held_seconds,
        sensed.start_basis,
        sensed.end_basis,
        sensed.start_basis != 'recorded' or sensed.end_basis != 'recorded' as is_inferred
    from sensed
    left join saved on sensed.instance_key = saved.instance_key and sensed.attempt = saved.attempt

)

select * from final
