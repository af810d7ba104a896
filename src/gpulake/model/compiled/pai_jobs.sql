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
