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
