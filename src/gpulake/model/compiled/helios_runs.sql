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
