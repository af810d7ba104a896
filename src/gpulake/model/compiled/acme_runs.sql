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
