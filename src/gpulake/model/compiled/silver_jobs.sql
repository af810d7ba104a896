with  __dbt__cte__pai_jobs as (
-- Jobs of PAI. The row that knows the latest end knows most.

with events as (

    
    with keyed as not materialized (

        select
            *,
            cast(hash(job_name) >> 1 as bigint) as row_key
        from "landed"."main"."bronze_job_events"

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
    qualify row_number() over (partition by row_key order by end_time desc nulls last, start_time desc nulls last, case case status
        when 'Terminated' then 'succeeded'
        when 'Failed' then 'failed'
        when 'Interrupted' then 'interrupted'
        when 'Running' then 'running'
        when 'Waiting' then 'waiting'
        else 'unknown'
    end when 'succeeded' then 1 when 'failed' then 2 when 'node_fail' then 3 when 'timeout' then 4 when 'interrupted' then 5 when 'cancelled' then 6 when 'running' then 7 when 'waiting' then 8 when 'unknown' then 9 end, keyed) = 1


),

tags as (

    
    with keyed as not materialized (

        select
            *,
            cast(hash(inst_id) >> 1 as bigint) as row_key
        from "landed"."main"."bronze_group_tag_table"

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
    qualify row_number() over (partition by row_key order by workload desc nulls last, keyed) = 1


),

launches as (

    select
        cast(hash(job_name) >> 1 as bigint) as job_key,
        min(nullif(start_time, 0)) as first_launch
    from "landed"."main"."bronze_task_table"
    group by job_key

)

select
    events.row_key as job_key,
    case when events.job_name like 'synth-%' then 'synth' else 'pai' end as cluster_id,
    events.job_name as job_id,
    events.user as user_id,
    coalesce(tags.group, events.user) as group_id,
    tags.workload,
    cast(null as varchar) as account_id,
    tags.gpu_type_spec as requested_gpu_type,
    case events.status
        when 'Terminated' then 'succeeded'
        when 'Failed' then 'failed'
        when 'Interrupted' then 'interrupted'
        when 'Running' then 'running'
        when 'Waiting' then 'waiting'
        else 'unknown'
    end as status,
    to_timestamp(case when isfinite(nullif(events.start_time, 0)) then nullif(events.start_time, 0) end) as submitted_at,
    to_timestamp(case when isfinite(launches.first_launch) then launches.first_launch end) as started_at,
    to_timestamp(case when isfinite(nullif(events.end_time, 0)) then nullif(events.end_time, 0) end) as ended_at
from events
left join tags on cast(hash(events.inst_id) >> 1 as bigint) = tags.row_key
left join launches on events.row_key = launches.job_key
),  __dbt__cte__acme_runs as (
-- Jobs of AcmeTrace. Kalos counts `duration` and `gpu_time` from the submission: only begins and ends are used.

with seren as (

    
    with keyed as not materialized (

        select
            *,
            cast(hash(job_id) >> 1 as bigint) as row_key
        from "landed"."main"."bronze_acme_seren_jobs"

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
    qualify row_number() over (partition by row_key order by end_time desc nulls last, start_time desc nulls last, case case
        when state = 'COMPLETED' then 'succeeded'
        when state in ('FAILED', 'OUT_OF_MEMORY', 'LAUNCH_FAILED', 'RECONFIG_FAIL') then 'failed'
        when state in ('NODE_FAIL', 'BOOT_FAIL') then 'node_fail'
        when state in ('TIMEOUT', 'DEADLINE') then 'timeout'
        when state in ('PREEMPTED', 'REQUEUED', 'REVOKED') then 'interrupted'
        when state = 'CANCELLED' or state like 'CANCELLED by %' then 'cancelled'
        when
            state in (
                'RUNNING', 'COMPLETING', 'CONFIGURING', 'POWER_UP_NODE', 'RESIZING', 'SIGNALING', 'STAGE_OUT', 'STOPPED',
                'SUSPENDED'
            )
            then 'running'
        when
            state in (
                'PENDING', 'REQUEUE_FED', 'REQUEUE_HOLD', 'RESV_DEL_HOLD', 'SPECIAL_EXIT', 'EXPEDITING'
            )
            then 'waiting'
        else 'unknown'
    end when 'succeeded' then 1 when 'failed' then 2 when 'node_fail' then 3 when 'timeout' then 4 when 'interrupted' then 5 when 'cancelled' then 6 when 'running' then 7 when 'waiting' then 8 when 'unknown' then 9 end, keyed) = 1


),

kalos as (

    
    with keyed as not materialized (

        select
            *,
            cast(hash(job_id) >> 1 as bigint) as row_key
        from "landed"."main"."bronze_acme_kalos_jobs"

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
    qualify row_number() over (partition by row_key order by coalesce(end_time, fail_time, stop_time) desc nulls last, start_time desc nulls last, case case
        when state = 'COMPLETED' then 'succeeded'
        when state in ('FAILED', 'OUT_OF_MEMORY', 'LAUNCH_FAILED', 'RECONFIG_FAIL') then 'failed'
        when state in ('NODE_FAIL', 'BOOT_FAIL') then 'node_fail'
        when state in ('TIMEOUT', 'DEADLINE') then 'timeout'
        when state in ('PREEMPTED', 'REQUEUED', 'REVOKED') then 'interrupted'
        when state = 'CANCELLED' or state like 'CANCELLED by %' then 'cancelled'
        when
            state in (
                'RUNNING', 'COMPLETING', 'CONFIGURING', 'POWER_UP_NODE', 'RESIZING', 'SIGNALING', 'STAGE_OUT', 'STOPPED',
                'SUSPENDED'
            )
            then 'running'
        when
            state in (
                'PENDING', 'REQUEUE_FED', 'REQUEUE_HOLD', 'RESV_DEL_HOLD', 'SPECIAL_EXIT', 'EXPEDITING'
            )
            then 'waiting'
        else 'unknown'
    end when 'succeeded' then 1 when 'failed' then 2 when 'node_fail' then 3 when 'timeout' then 4 when 'interrupted' then 5 when 'cancelled' then 6 when 'running' then 7 when 'waiting' then 8 when 'unknown' then 9 end, keyed) = 1


),

known as (

    select * from "landed"."main"."known_clusters"

),

jobs as (

    select
        'seren' as cluster_id,
        job_id,
        "user" as user_id,
        type as workload,
        state,
        submit_time as submitted_at,
        start_time as started_at,
        end_time as ended_at,
        greatest(coalesce(cast(case when isfinite(node_num) then node_num end as bigint), 1), 1) as nodes,
        case when isfinite(cpu_num) then cpu_num end as cores,
        cast(null as bigint) as memory_bytes,
        coalesce(case when isfinite(gpu_num) then gpu_num end, 0) as gpus
    from seren

    union all

    select
        'kalos' as cluster_id,
        job_id,
        "user" as user_id,
        type as workload,
        state,
        submit_time as submitted_at,
        start_time as started_at,
        coalesce(end_time, fail_time, stop_time) as ended_at,
        greatest(coalesce(cast(case when isfinite(node_num) then node_num end as bigint), 1), 1) as nodes,
        case when isfinite(cpu_num) then cpu_num end as cores,
        cast(case when isfinite("mem_per_pod_GB") then "mem_per_pod_GB" end * 1000000000 as bigint) as memory_bytes,
        coalesce(case when isfinite(gpu_num) then gpu_num end, 0) as gpus
    from kalos

)

select
    jobs.cluster_id,
    jobs.job_id,
    cast(1 as bigint) as run,
    jobs.user_id,
    jobs.user_id as group_id,
    jobs.workload,
    cast(null as varchar) as account_id,
    cast(null as varchar) as requested_gpu_type,
    case
        when jobs.state = 'COMPLETED' then 'succeeded'
        when jobs.state in ('FAILED', 'OUT_OF_MEMORY', 'LAUNCH_FAILED', 'RECONFIG_FAIL') then 'failed'
        when jobs.state in ('NODE_FAIL', 'BOOT_FAIL') then 'node_fail'
        when jobs.state in ('TIMEOUT', 'DEADLINE') then 'timeout'
        when jobs.state in ('PREEMPTED', 'REQUEUED', 'REVOKED') then 'interrupted'
        when jobs.state = 'CANCELLED' or jobs.state like 'CANCELLED by %' then 'cancelled'
        when
            jobs.state in (
                'RUNNING', 'COMPLETING', 'CONFIGURING', 'POWER_UP_NODE', 'RESIZING', 'SIGNALING', 'STAGE_OUT', 'STOPPED',
                'SUSPENDED'
            )
            then 'running'
        when
            jobs.state in (
                'PENDING', 'REQUEUE_FED', 'REQUEUE_HOLD', 'RESV_DEL_HOLD', 'SPECIAL_EXIT', 'EXPEDITING'
            )
            then 'waiting'
        else 'unknown'
    end as status,
    jobs.submitted_at,
    jobs.submitted_at as launched_at,
    jobs.started_at,
    jobs.ended_at,
    jobs.nodes as planned_instances,
    jobs.cores / jobs.nodes as requested_cores,
    jobs.memory_bytes as requested_memory_bytes,
    jobs.gpus / jobs.nodes as requested_gpus,
    jobs.gpus,
    case when jobs.gpus > 0 then known.gpu_type end as gpu_type
from jobs
left join known on jobs.cluster_id = known.cluster_id
),  __dbt__cte__helios_runs as (
-- Jobs of Helios, whose times are those of the clusters' own clocks.

with jobs as (

    
    with keyed as not materialized (

        select
            *,
            cast(hash(lower(cluster), job_id) >> 1 as bigint) as row_key
        from "landed"."main"."bronze_helios_jobs"

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
    qualify row_number() over (partition by row_key order by end_time desc nulls last, start_time desc nulls last, case case
        when state = 'COMPLETED' then 'succeeded'
        when state in ('FAILED', 'OUT_OF_MEMORY', 'LAUNCH_FAILED', 'RECONFIG_FAIL') then 'failed'
        when state in ('NODE_FAIL', 'BOOT_FAIL') then 'node_fail'
        when state in ('TIMEOUT', 'DEADLINE') then 'timeout'
        when state in ('PREEMPTED', 'REQUEUED', 'REVOKED') then 'interrupted'
        when state = 'CANCELLED' or state like 'CANCELLED by %' then 'cancelled'
        when
            state in (
                'RUNNING', 'COMPLETING', 'CONFIGURING', 'POWER_UP_NODE', 'RESIZING', 'SIGNALING', 'STAGE_OUT', 'STOPPED',
                'SUSPENDED'
            )
            then 'running'
        when
            state in (
                'PENDING', 'REQUEUE_FED', 'REQUEUE_HOLD', 'RESV_DEL_HOLD', 'SPECIAL_EXIT', 'EXPEDITING'
            )
            then 'waiting'
        else 'unknown'
    end when 'succeeded' then 1 when 'failed' then 2 when 'node_fail' then 3 when 'timeout' then 4 when 'interrupted' then 5 when 'cancelled' then 6 when 'running' then 7 when 'waiting' then 8 when 'unknown' then 9 end, keyed) = 1


),

known as (

    select * from "landed"."main"."known_clusters"

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
        greatest(coalesce(cast(case when isfinite(jobs.node_num) then jobs.node_num end as bigint), 1), 1) as nodes,
        coalesce(case when isfinite(jobs.gpu_num) then jobs.gpu_num end, 0) as gpus
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
    case
        when state = 'COMPLETED' then 'succeeded'
        when state in ('FAILED', 'OUT_OF_MEMORY', 'LAUNCH_FAILED', 'RECONFIG_FAIL') then 'failed'
        when state in ('NODE_FAIL', 'BOOT_FAIL') then 'node_fail'
        when state in ('TIMEOUT', 'DEADLINE') then 'timeout'
        when state in ('PREEMPTED', 'REQUEUED', 'REVOKED') then 'interrupted'
        when state = 'CANCELLED' or state like 'CANCELLED by %' then 'cancelled'
        when
            state in (
                'RUNNING', 'COMPLETING', 'CONFIGURING', 'POWER_UP_NODE', 'RESIZING', 'SIGNALING', 'STAGE_OUT', 'STOPPED',
                'SUSPENDED'
            )
            then 'running'
        when
            state in (
                'PENDING', 'REQUEUE_FED', 'REQUEUE_HOLD', 'RESV_DEL_HOLD', 'SPECIAL_EXIT', 'EXPEDITING'
            )
            then 'waiting'
        else 'unknown'
    end as status,
    case
        when time_zone = usual_zone then timezone(usual_zone, submit_time)
        else timezone(time_zone, submit_time)
    end as submitted_at,
    case
        when time_zone = usual_zone then timezone(usual_zone, submit_time)
        else timezone(time_zone, submit_time)
    end as launched_at,
    case
        when time_zone = usual_zone then timezone(usual_zone, start_time)
        else timezone(time_zone, start_time)
    end as started_at,
    case
        when time_zone = usual_zone then timezone(usual_zone, end_time)
        else timezone(time_zone, end_time)
    end as ended_at,
    nodes as planned_instances,
    case when isfinite(cpu_num) then cpu_num end / nodes as requested_cores,
    cast(null as bigint) as requested_memory_bytes,
    gpus / nodes as requested_gpus,
    gpus,
    case when gpus > 0 then gpu_type end as gpu_type
from zoned
),  __dbt__cte__openb_runs as (
-- Pods of Alibaba's GPU trace of 2023, in seconds from its begin. All lists of pods but one are samples of that one.

with pods as (

    
    with keyed as not materialized (

        select
            *,
            cast(hash(name) >> 1 as bigint) as row_key
        from (
        select *
        from "landed"."main"."bronze_openb_pods"
        where
            list = (
                select coalesce(max(case when list = 'openb_pod_list_default' then list end), min(list))
                from "landed"."main"."bronze_openb_pods"
            )
    )

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
    qualify row_number() over (partition by row_key order by deletion_time desc nulls last, scheduled_time desc nulls last, case case pod_phase
        when 'Succeeded' then 'succeeded'
        when 'Failed' then 'failed'
        when 'Running' then 'running'
        when 'Pending' then 'waiting'
        else 'unknown'
    end when 'succeeded' then 1 when 'failed' then 2 when 'node_fail' then 3 when 'timeout' then 4 when 'interrupted' then 5 when 'cancelled' then 6 when 'running' then 7 when 'waiting' then 8 when 'unknown' then 9 end, keyed) = 1


),

measured as (

    select
        *,
        coalesce(case when isfinite(num_gpu) then num_gpu end, 0) * coalesce(case when isfinite(gpu_milli) then gpu_milli end, 1000) / 1000 as gpus
    from pods

)

select
    'openb' as cluster_id,
    name as job_id,
    cast(1 as bigint) as run,
    cast(null as varchar) as user_id,
    cast(null as varchar) as group_id,
    cast(null as varchar) as workload,
    qos as account_id,
    gpu_spec as requested_gpu_type,
    case pod_phase
        when 'Succeeded' then 'succeeded'
        when 'Failed' then 'failed'
        when 'Running' then 'running'
        when 'Pending' then 'waiting'
        else 'unknown'
    end as status,
    to_timestamp(case when isfinite(creation_time) then creation_time end) as submitted_at,
    to_timestamp(case when isfinite(creation_time) then creation_time end) as launched_at,
    to_timestamp(case when isfinite(scheduled_time) then scheduled_time end) as started_at,
    to_timestamp(case when isfinite(deletion_time) then deletion_time end) as ended_at,
    cast(1 as bigint) as planned_instances,
    case when isfinite(cpu_milli) then cpu_milli end / 1000 as requested_cores,
    cast(case when isfinite(memory_mib) then memory_mib end * 1048576 as bigint) as requested_memory_bytes,
    gpus as requested_gpus,
    gpus,
    case when gpus > 0 and gpu_spec not like '%|%' then gpu_spec end as gpu_type
from measured
),  __dbt__cte__opendc_runs as (
-- Tasks of OpenDC workloads. They say when they were submitted and how long they run, and not when they began: they are
-- taken to begin at once. A GPU is what OpenDC calls a GPU core, unless the file says how many MHz a GPU is: then tasks
-- may have a part of one.



with tasks as (

    
    with keyed as not materialized (

        select
            *,
            cast(hash(workload, id) >> 1 as bigint) as row_key
        from "landed"."main"."bronze_opendc_tasks"

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
    qualify row_number() over (partition by row_key order by file_row desc, keyed) = 1


),

named as (

    select
        *,
        -- Names need not be unique; ids are.
        case when count(*) over (partition by workload, name) = 1 then coalesce(name, id) else id end as job_id,
        coalesce(
            case when isfinite(gpu_capacity) then gpu_capacity end
            / case when try_cast(json_extract_string(file_columns, '$."gpulake.gpu_mhz"') as double) > 0 then try_cast(json_extract_string(file_columns, '$."gpulake.gpu_mhz"') as double) end,
            gpu_count,
            0
        ) as gpus
    from tasks

)

select
    lower(workload) as cluster_id,
    job_id,
    cast(1 as bigint) as run,
    cast(null as varchar) as user_id,
    cast(null as varchar) as group_id,
    cast(null as varchar) as workload,
    cast(null as varchar) as account_id,
    cast(null as varchar) as requested_gpu_type,
    'succeeded' as status,
    to_timestamp(submission_time / 1000) as submitted_at,
    to_timestamp(submission_time / 1000) as launched_at,
    to_timestamp(submission_time / 1000) as started_at,
    to_timestamp((submission_time + duration) / 1000) as ended_at,
    cast(1 as bigint) as planned_instances,
    cast(cpu_count as double) as requested_cores,
    mem_capacity * 1000 as requested_memory_bytes,
    gpus as requested_gpus,
    gpus,
    cast(null as varchar) as gpu_type
from named
),  __dbt__cte__philly_rows as (
-- The job log of Philly in our words: a row for each machine of an attempt. A log may stand in several files.

with attempts as (

    
    with keyed as not materialized (

        select
            *,
            cast(hash(jobid, attempt, ip) >> 1 as bigint) as row_key
        from "landed"."main"."bronze_philly_attempts"

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
    qualify row_number() over (partition by row_key order by end_time desc nulls last, start_time desc nulls last, case case status
        when 'Pass' then 'succeeded'
        when 'Failed' then 'failed'
        when 'Killed' then 'cancelled'
        else 'unknown'
    end when 'succeeded' then 1 when 'failed' then 2 when 'node_fail' then 3 when 'timeout' then 4 when 'interrupted' then 5 when 'cancelled' then 6 when 'running' then 7 when 'waiting' then 8 when 'unknown' then 9 end, keyed) = 1


),

known as (

    select * from "landed"."main"."known_clusters"
    where cluster_id = 'philly'

),

zones as (

    select
        coalesce(max(time_zone), 'UTC') as time_zone,
        max(gpu_type) as gpu_type
    from known

)

select
    attempts.jobid as job_id,
    attempts."user" as user_id,
    attempts.vc as account_id,
    case attempts.status
        when 'Pass' then 'succeeded'
        when 'Failed' then 'failed'
        when 'Killed' then 'cancelled'
        else 'unknown'
    end as job_status,
    cast(coalesce(attempts.attempt, 0) as bigint) as attempt,
    attempts.ip as machine_id,
    coalesce(case when isfinite(attempts.gpu_count) then attempts.gpu_count end, 0) as gpus,
    zones.gpu_type,
    case
        when zones.time_zone = zones.time_zone then timezone(zones.time_zone, attempts.submitted_time)
        else timezone(zones.time_zone, attempts.submitted_time)
    end as submitted_at,
    case
        when zones.time_zone = zones.time_zone then timezone(zones.time_zone, attempts.start_time)
        else timezone(zones.time_zone, attempts.start_time)
    end as started_at,
    case
        when zones.time_zone = zones.time_zone then timezone(zones.time_zone, attempts.end_time)
        else timezone(zones.time_zone, attempts.end_time)
    end as ended_at
from attempts
cross join zones
),  __dbt__cte__philly_runs as (
-- Attempts of Philly as a whole. An attempt that another one follows has failed, or nobody would have tried again; and
-- it was over when that began, though its own end may not be told.

with machines as (

    select * from __dbt__cte__philly_rows

),

attempts as (

    select
        job_id,
        attempt,
        max(user_id) as user_id,
        max(account_id) as account_id,
        min(case job_status when 'succeeded' then 1 when 'failed' then 2 when 'node_fail' then 3 when 'timeout' then 4 when 'interrupted' then 5 when 'cancelled' then 6 when 'running' then 7 when 'waiting' then 8 when 'unknown' then 9 end) as job_status_rank,
        min(submitted_at) as submitted_at,
        min(started_at) as started_at,
        max(ended_at) as ended_at,
        count(machine_id) as machines,
        sum(gpus) as gpus,
        max(gpu_type) as gpu_type
    from machines
    group by job_id, attempt

),

judged as (

    select
        *,
        max(attempt) over by_job as last_attempt,
        min(started_at) over (
            partition by job_id order by attempt rows between 1 following and unbounded following
        ) as next_started_at,
        first_value(job_status_rank) over (partition by job_id order by attempt desc) as last_status_rank,
        greatest(max(machines) over by_job, 1) as most_machines,
        max(gpus) over by_job as most_gpus
    from attempts
    window by_job as (partition by job_id)

)

select
    'philly' as cluster_id,
    job_id,
    attempt as run,
    user_id,
    user_id as group_id,
    cast(null as varchar) as workload,
    account_id,
    cast(null as varchar) as requested_gpu_type,
    case when attempt < last_attempt then 'failed' else case last_status_rank when 1 then 'succeeded' when 2 then 'failed' when 3 then 'node_fail' when 4 then 'timeout' when 5 then 'interrupted' when 6 then 'cancelled' when 7 then 'running' when 8 then 'waiting' when 9 then 'unknown' end end as status,
    submitted_at,
    submitted_at as launched_at,
    started_at,
    coalesce(ended_at, next_started_at) as ended_at,
    most_machines as planned_instances,
    cast(null as double) as requested_cores,
    cast(null as bigint) as requested_memory_bytes,
    most_gpus / most_machines as requested_gpus,
    gpus,
    case when most_gpus > 0 then gpu_type end as gpu_type
from judged
),  __dbt__cte__slurm_rows as (
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
),  __dbt__cte__slurm_runs as (
-- Runs of Slurm in the words of all sources.

with tries as (

    select * from __dbt__cte__slurm_tries

)

select
    cluster_id,
    job_id,
    run,
    user_id,
    group_id,
    cast(null as varchar) as workload,
    account_id,
    requested_gpu_type,
    status,
    submitted_at,
    launched_at,
    started_at,
    ended_at,
    node_count as planned_instances,
    cores / node_count as requested_cores,
    cast(memory_bytes / node_count as bigint) as requested_memory_bytes,
    requested_gpus / node_count as requested_gpus,
    gpus,
    gpu_type
from tries
),  __dbt__cte__runs as (
-- Every time that a job was run, of all sources but PAI; one row for a job that never was.

select * from __dbt__cte__acme_runs
        union all
    select * from __dbt__cte__helios_runs
        union all
    select * from __dbt__cte__openb_runs
        union all
    select * from __dbt__cte__opendc_runs
        union all
    select * from __dbt__cte__philly_runs
        union all
    select * from __dbt__cte__slurm_runs
),  __dbt__cte__run_jobs as (
-- Jobs of the sources that tell of runs: begun with the first of them, and what became of the last.

with runs as (

    select * from __dbt__cte__runs

),

spans as (

    select
        cast(hash(cluster_id, job_id) >> 1 as bigint) as job_key,
        min(submitted_at) as submitted_at,
        min(started_at) as started_at
    from runs
    group by job_key

),

last_runs as (

    
    with keyed as not materialized (

        select
            *,
            cast(hash(cluster_id, job_id) >> 1 as bigint) as row_key
        from runs

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
    qualify row_number() over (partition by row_key order by run desc, keyed) = 1


)

select
    last_runs.row_key as job_key,
    last_runs.cluster_id,
    last_runs.job_id,
    last_runs.user_id,
    last_runs.group_id,
    last_runs.workload,
    last_runs.account_id,
    last_runs.requested_gpu_type,
    last_runs.status,
    spans.submitted_at,
    spans.started_at,
    -- What runs or waits has not ended, whatever else its row says: openb has the time at which a pod was deleted.
    case when last_runs.status not in ('running', 'waiting') then last_runs.ended_at end as ended_at
from last_runs
left join spans on last_runs.row_key = spans.job_key
),  __dbt__cte__jobs as (
-- The jobs of every source.

select * from __dbt__cte__pai_jobs
union all
select * from __dbt__cte__run_jobs
), jobs as (

    select * from __dbt__cte__jobs

),

final as (

    select
        *,
        epoch(started_at) - epoch(submitted_at) as launch_wait_seconds,
        -- A clock that ran backwards tells no time.
        case
            when ended_at >= submitted_at then epoch(ended_at) - epoch(submitted_at)
        end as turnaround_seconds
    from jobs

)

select * from final

-- test: accepted_values_silver_jobs_status__succeeded__failed__node_fail__timeout__interrupted__cancelled__running__waiting__unknown(status) error
where status not in ('succeeded', 'failed', 'node_fail', 'timeout', 'interrupted', 'cancelled', 'running', 'waiting', 'unknown')

-- test: in_range_silver_jobs_0__launch_wait_seconds(launch_wait_seconds) warn
where false
    or launch_wait_seconds < 0

-- test: in_range_silver_jobs_0__turnaround_seconds(turnaround_seconds) warn
where false
    or turnaround_seconds < 0

-- test: not_null_silver_jobs_cluster_id(cluster_id) error
where cluster_id is null

-- test: not_null_silver_jobs_job_id(job_id) error
where job_id is null

-- test: not_null_silver_jobs_job_key(job_key) error
where job_key is null

-- test: not_null_silver_jobs_status(status) error
where status is null

-- test: unique_silver_jobs_job_key(job_key) error
select
    job_key as unique_field,
    count(*) as n_records

from "lake"."main"."silver_jobs"
where job_key is not null
group by job_key
having count(*) > 1
