with  __dbt__cte__pai_plans as (
-- Tasks of PAI as planned. A task has one row, though it may stand in several files.

with tasks as (

    
    with keyed as not materialized (

        select
            *,
            cast(hash(job_name, task_name) >> 1 as bigint) as row_key
        from "landed"."main"."bronze_task_table"

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


)

select
    row_key as task_key,
    cast(hash(job_name) >> 1 as bigint) as job_key,
    case when job_name like 'synth-%' then 'synth' else 'pai' end as cluster_id,
    task_name,
    cast(case when isfinite(inst_num) then inst_num end as bigint) as planned_instances,
    case status
        when 'Terminated' then 'succeeded'
        when 'Failed' then 'failed'
        when 'Interrupted' then 'interrupted'
        when 'Running' then 'running'
        when 'Waiting' then 'waiting'
        else 'unknown'
    end as status,
    to_timestamp(case when isfinite(nullif(start_time, 0)) then nullif(start_time, 0) end) as launched_at,
    to_timestamp(case when isfinite(nullif(end_time, 0)) then nullif(end_time, 0) end) as ended_at,
    case when isfinite(plan_cpu) then plan_cpu end / 100 as requested_cores,
    cast(case when isfinite(plan_mem) then plan_mem end * 1073741824 as bigint) as requested_memory_bytes,
    coalesce(case when isfinite(plan_gpu) then plan_gpu end / 100, 0) as requested_gpus,
    nullif(gpu_type, 'CPU') as gpu_type
from tasks
),  __dbt__cte__pai_attempts as (
-- Attempts of PAI: what they hold is what their task asked for, on the machine that they ran on. Daily dumps tell of an
-- attempt again: as it waits, as it runs and once it is over.



with instances as not materialized (

    select * from "landed"."main"."bronze_instance_table"

),

plans as (

    select * from __dbt__cte__pai_plans

),

machines as (

    select * from "lake"."main"."silver_machines"

),

keyed as not materialized (

    select
        cast(hash(job_name) >> 1 as bigint) as job_key,
        cast(hash(job_name, task_name) >> 1 as bigint) as task_key,
        cast(hash(job_name, task_name, inst_name) >> 1 as bigint) as instance_key,
        case when worker_name is not null then cast(hash(worker_name) >> 1 as bigint) end as worker_key,
        case when machine is not null then cast(hash(machine) >> 1 as bigint) end as machine_key,
        inst_name,
        -- Rows that are told again have this in common.
        cast(hash(inst_name, worker_name) >> 1 as bigint) as pair_key,
        case when job_name like 'synth-%' then 'synth' else 'pai' end as cluster_id,
        task_name,
        case status
        when 'Terminated' then 'succeeded'
        when 'Failed' then 'failed'
        when 'Interrupted' then 'interrupted'
        when 'Running' then 'running'
        when 'Waiting' then 'waiting'
        else 'unknown'
    end as status,
        to_timestamp(case when isfinite(nullif(start_time, 0)) then nullif(start_time, 0) end) as started_at,
        to_timestamp(case when isfinite(nullif(end_time, 0)) then nullif(end_time, 0) end) as ended_at
    from instances

),

-- In one dump there are none; the rest goes by unsorted.
repeated as (

    select pair_key
    from keyed
    where inst_name is not null
    group by pair_key
    having count(*) > 1

),

copied_once as (

    select *
    from keyed
    where inst_name is not null and pair_key in (select repeated.pair_key from repeated)
    qualify
        row_number() over (
            partition by instance_key, pair_key, started_at, ended_at
            order by case status when 'succeeded' then 1 when 'failed' then 2 when 'node_fail' then 3 when 'timeout' then 4 when 'interrupted' then 5 when 'cancelled' then 6 when 'running' then 7 when 'waiting' then 8 when 'unknown' then 9 end, machine_key
        ) = 1

),

told_again as (

    select
        *,
        row_number() over (
            partition by instance_key, pair_key
            order by case status when 'succeeded' then 1 when 'failed' then 2 when 'node_fail' then 3 when 'timeout' then 4 when 'interrupted' then 5 when 'cancelled' then 6 when 'running' then 7 when 'waiting' then 8 when 'unknown' then 9 end, started_at desc nulls last, ended_at desc nulls last
        ) as finality
    from copied_once

),

waiting as (

    select instance_key
    from keyed
    where worker_key is null and inst_name is not null

),

begun as (

    select distinct instance_key
    from keyed
    where worker_key is not null and instance_key in (select waiting.instance_key from waiting)

),

told_once as (

    select job_key,
        task_key,
        instance_key,
        worker_key,
        machine_key,
        cluster_id,
        task_name,
        status,
        started_at,
        ended_at
    from keyed
    where inst_name is not null and pair_key not in (select repeated.pair_key from repeated)

    union all

    select job_key,
        task_key,
        instance_key,
        worker_key,
        machine_key,
        cluster_id,
        task_name,
        status,
        started_at,
        ended_at
    from told_again
    where status not in ('running', 'waiting') or finality = 1

    union all

    -- Without a name nobody can tell instances apart that say the same.
    select distinct job_key,
        task_key,
        instance_key,
        worker_key,
        machine_key,
        cluster_id,
        task_name,
        status,
        started_at,
        ended_at
    from keyed
    where inst_name is null

)

select
    told_once.job_key,
    told_once.task_key,
    told_once.instance_key,
    told_once.worker_key,
    told_once.machine_key,
    told_once.cluster_id,
    told_once.task_name,
    told_once.status,
    told_once.started_at,
    told_once.ended_at,
    -- Without the row of its task nobody knows what it asked for.
    plans.requested_gpus as gpus,
    coalesce(machines.gpu_type, plans.gpu_type) as gpu_type
from told_once
left join plans on told_once.task_key = plans.task_key
left join machines on told_once.machine_key = machines.machine_key
where told_once.worker_key is not null or told_once.instance_key not in (select begun.instance_key from begun)
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
),  __dbt__cte__philly_attempts as (
-- Attempts of Philly by machine. The machines of an attempt are counted, so that a retry elsewhere is one of the same
-- instance.

with machines as (

    select * from __dbt__cte__philly_rows

),

runs as (

    select * from __dbt__cte__philly_runs

),

placed as (

    select
        *,
        row_number() over (partition by job_id, attempt order by machine_id) as position
    from machines

)

select
    cast(hash('philly', placed.job_id) >> 1 as bigint) as job_key,
    cast(hash('philly', placed.job_id, 'job') >> 1 as bigint) as task_key,
    cast(hash('philly', placed.job_id, 'job', placed.position) >> 1 as bigint) as instance_key,
    cast(null as bigint) as worker_key,
    case
        when placed.machine_id is not null then case
        when 'philly' in ('pai', 'synth') then cast(hash(placed.machine_id) >> 1 as bigint)
        else cast(hash('philly', placed.machine_id) >> 1 as bigint)
    end
        else cast(hash('philly', '(all machines)') >> 1 as bigint)
    end as machine_key,
    'philly' as cluster_id,
    'job' as task_name,
    runs.status,
    placed.started_at,
    runs.ended_at,
    placed.gpus,
    case when placed.gpus > 0 then placed.gpu_type end as gpu_type
from placed
inner join runs on placed.job_id = runs.job_id and placed.attempt = runs.run
where (placed.started_at is not null or runs.status in ('running', 'waiting'))
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
),  __dbt__cte__pool_attempts as (
-- Attempts of sources that do not say where a job ran: one for each job, on all machines of its cluster.

with runs as (

    select * from __dbt__cte__acme_runs
            union all
        select * from __dbt__cte__helios_runs
            union all
        select * from __dbt__cte__openb_runs
            union all
        select * from __dbt__cte__opendc_runs

)

select
    cast(hash(cluster_id, job_id) >> 1 as bigint) as job_key,
    cast(hash(cluster_id, job_id, 'job') >> 1 as bigint) as task_key,
    cast(hash(cluster_id, job_id, 'job', 1) >> 1 as bigint) as instance_key,
    cast(null as bigint) as worker_key,
    cast(hash(cluster_id, '(all machines)') >> 1 as bigint) as machine_key,
    cluster_id,
    'job' as task_name,
    status,
    started_at,
    case when started_at is not null then ended_at end as ended_at,
    gpus,
    gpu_type
from runs
where (started_at is not null or status in ('running', 'waiting'))
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
),  __dbt__cte__slurm_attempts as (
-- Attempts of Slurm by node. The nodes of a run are counted, so that a retry elsewhere is one of the same instance.

with nodes as (

    select * from __dbt__cte__slurm_nodes

),

machines as (

    select * from "lake"."main"."silver_machines"

),

placed as (

    select
        *,
        row_number() over (partition by cluster_id, job_id, run order by node) as position,
        case
            when node is not null then case
        when cluster_id in ('pai', 'synth') then cast(hash(node) >> 1 as bigint)
        else cast(hash(cluster_id, node) >> 1 as bigint)
    end else cast(hash(cluster_id, '(all machines)') >> 1 as bigint)
        end as machine_key
    from nodes

)

select
    cast(hash(placed.cluster_id, placed.job_id) >> 1 as bigint) as job_key,
    cast(hash(placed.cluster_id, placed.job_id, 'job') >> 1 as bigint) as task_key,
    cast(hash(placed.cluster_id, placed.job_id, 'job', placed.position) >> 1 as bigint) as instance_key,
    placed.worker_key,
    placed.machine_key,
    placed.cluster_id,
    'job' as task_name,
    placed.status,
    placed.started_at,
    case when placed.started_at is not null then placed.ended_at end as ended_at,
    placed.gpus,
    case when placed.gpus > 0 then coalesce(machines.gpu_type, placed.gpu_type) end as gpu_type
from placed
left join machines on placed.machine_key = machines.machine_key
),  __dbt__cte__attempts as (
-- The attempts of every source.

select * from __dbt__cte__pai_attempts
        union all
    select * from __dbt__cte__philly_attempts
        union all
    select * from __dbt__cte__pool_attempts
        union all
    select * from __dbt__cte__slurm_attempts
), attempts as (

    select * from __dbt__cte__attempts

),


final as (

    select
        job_key,
        task_key,
        instance_key,
        worker_key,
        machine_key,
        cluster_id,
        task_name,
        -- Tries that never got anywhere come last: they are still waiting.
        row_number() over (
            partition by instance_key
            order by
                coalesce(started_at, ended_at) asc nulls last, ended_at asc nulls last,
                cast(hash(worker_key, machine_key, status) >> 1 as bigint) asc
        ) as attempt,
        status,
        started_at,
        ended_at,
        epoch(ended_at) - epoch(started_at) as run_seconds,
        gpus,
        gpu_type
    from attempts

)

select * from final

-- test: accepted_values_silver_instances_status__succeeded__failed__node_fail__timeout__interrupted__cancelled__running__waiting__unknown(status) error
where status not in ('succeeded', 'failed', 'node_fail', 'timeout', 'interrupted', 'cancelled', 'running', 'waiting', 'unknown')

-- test: an_attempt_has_one_row() error
select instance_key, attempt
from "lake"."main"."silver_instances"
group by instance_key, attempt
having count(*) > 1

-- test: every_attempt_that_landed_is_there() error
select *
from (
    select
        count(distinct instance_key) as instances_here,
        count(distinct worker_key) as workers_here,
        count(*) as rows_here
    from "lake"."main"."silver_instances"
    where cluster_id in (select case when job_name like 'synth-%' then 'synth' else 'pai' end from "landed"."main"."bronze_instance_table")
) as here
cross join (
    select
        count(distinct cast(hash(job_name, task_name, inst_name) >> 1 as bigint)) as instances_there,
        count(distinct case when worker_name is not null then cast(hash(worker_name) >> 1 as bigint) end) as workers_there,
        count(*) as rows_there
    from "landed"."main"."bronze_instance_table"
) as there
where instances_here != instances_there or workers_here != workers_there or rows_here > rows_there

-- test: in_range_silver_instances_0__1000000000_0__attempt(attempt) error
where false
    or attempt < 0
    or attempt > 1000000000.0

-- test: in_range_silver_instances_0__gpus(gpus) error
where false
    or gpus < 0

-- test: in_range_silver_instances_0__run_seconds(run_seconds) warn
where false
    or run_seconds < 0

-- test: not_null_silver_instances_attempt(attempt) error
where attempt is null

-- test: not_null_silver_instances_cluster_id(cluster_id) error
where cluster_id is null

-- test: not_null_silver_instances_instance_key(instance_key) error
where instance_key is null

-- test: not_null_silver_instances_job_key(job_key) error
where job_key is null

-- test: not_null_silver_instances_status(status) error
where status is null

-- test: not_null_silver_instances_task_key(task_key) error
where task_key is null

-- test: relationships_silver_instances_job_key__job_key__ref_silver_jobs_(job_key) warn
with child as (
    select job_key as from_field
    from "lake"."main"."silver_instances"
    where job_key is not null
),

parent as (
    select job_key as to_field
    from "lake"."main"."silver_jobs"
)

select
    from_field

from child
left join parent
    on child.from_field = parent.to_field

where parent.to_field is null

-- test: relationships_silver_instances_task_key__task_key__ref_silver_tasks_(task_key) warn
with child as (
    select task_key as from_field
    from "lake"."main"."silver_instances"
    where task_key is not null
),

parent as (
    select task_key as to_field
    from "lake"."main"."silver_tasks"
)

select
    from_field

from child
left join parent
    on child.from_field = parent.to_field

where parent.to_field is null
