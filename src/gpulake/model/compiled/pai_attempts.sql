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

-- Most instances have one row, their only attempt: these go by unsorted.
several as (

    select instance_key
    from keyed
    group by instance_key
    having count(*) > 1

),

their_rows as (

    select *
    from keyed
    where instance_key in (select several.instance_key from several)

),

copied_once as (

    select *
    from their_rows
    where inst_name is not null
    qualify
        row_number() over (
            partition by instance_key, worker_key, started_at, ended_at
            order by case status when 'succeeded' then 1 when 'failed' then 2 when 'node_fail' then 3 when 'timeout' then 4 when 'interrupted' then 5 when 'cancelled' then 6 when 'running' then 7 when 'waiting' then 8 when 'unknown' then 9 end, machine_key
        ) = 1

),

told_again as (

    select
        *,
        row_number() over (
            partition by instance_key, worker_key
            order by case status when 'succeeded' then 1 when 'failed' then 2 when 'node_fail' then 3 when 'timeout' then 4 when 'interrupted' then 5 when 'cancelled' then 6 when 'running' then 7 when 'waiting' then 8 when 'unknown' then 9 end, started_at desc nulls last, ended_at desc nulls last
        ) as finality
    from copied_once

),

begun as (

    select distinct instance_key
    from their_rows
    where worker_key is not null and inst_name is not null

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
    from told_again
    where
        (status not in ('running', 'waiting') or finality = 1)
        and (worker_key is not null or instance_key not in (select begun.instance_key from begun))

    union all

    -- Equal instances without a name cannot be distinguished.
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
    from their_rows
    where inst_name is null

),

numbered as (

    select
        job_key,
        task_key,
        instance_key,
        worker_key,
        machine_key,
        cluster_id,
        task_name,
        status,
        started_at,
        ended_at,
        cast(1 as bigint) as attempt
    from keyed
    where instance_key not in (select several.instance_key from several)

    union all

    select
        job_key,
        task_key,
        instance_key,
        worker_key,
        machine_key,
        cluster_id,
        task_name,
        status,
        started_at,
        ended_at,
        row_number() over (
        partition by instance_key
        order by
            coalesce(started_at, ended_at) asc nulls last, ended_at asc nulls last,
            cast(hash(worker_key, machine_key, status) >> 1 as bigint) asc
    ) as attempt
    from told_once

)

select
    numbered.job_key,
    numbered.task_key,
    numbered.instance_key,
    numbered.worker_key,
    numbered.machine_key,
    numbered.cluster_id,
    numbered.task_name,
    numbered.status,
    numbered.started_at,
    numbered.ended_at,
    -- Without the row of its task its request is unknown.
    plans.requested_gpus as gpus,
    coalesce(machines.gpu_type, plans.gpu_type) as gpu_type,
    numbered.attempt
from numbered
left join plans on numbered.task_key = plans.task_key
left join machines on numbered.machine_key = machines.machine_key
