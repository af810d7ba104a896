-- Attempts of PAI: what they hold is what their task asked for, on the machine that they ran on. Daily dumps tell of an
-- attempt again: as it waits, as it runs and once it is over.

{% set attempt_columns -%}
    job_key,
        task_key,
        instance_key,
        worker_key,
        machine_key,
        cluster_id,
        task_name,
        status,
        started_at,
        ended_at
{%- endset %}

with instances as not materialized (

    select * from {{ source('landed', 'bronze_instance_table') }}

),

plans as (

    select * from {{ ref('pai_plans') }}

),

machines as (

    select * from {{ ref('silver_machines') }}

),

keyed as not materialized (

    select
        {{ surrogate_key(['job_name']) }} as job_key,
        {{ surrogate_key(['job_name', 'task_name']) }} as task_key,
        {{ surrogate_key(['job_name', 'task_name', 'inst_name']) }} as instance_key,
        case when worker_name is not null then {{ surrogate_key(['worker_name']) }} end as worker_key,
        case when machine is not null then {{ surrogate_key(['machine']) }} end as machine_key,
        inst_name,
        {{ pai_cluster('job_name') }} as cluster_id,
        task_name,
        {{ pai_status('status') }} as status,
        {{ pai_instant('start_time') }} as started_at,
        {{ pai_instant('end_time') }} as ended_at
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
            order by {{ status_rank('status') }}, machine_key
        ) = 1

),

told_again as (

    select
        *,
        row_number() over (
            partition by instance_key, worker_key
            order by {{ status_rank('status') }}, started_at desc nulls last, ended_at desc nulls last
        ) as finality
    from copied_once

),

begun as (

    select distinct instance_key
    from their_rows
    where worker_key is not null and inst_name is not null

),

told_once as (

    select {{ attempt_columns }}
    from told_again
    where
        (status not in ('running', 'waiting') or finality = 1)
        and (worker_key is not null or instance_key not in (select begun.instance_key from begun))

    union all

    -- Equal instances without a name cannot be distinguished.
    select distinct {{ attempt_columns }}
    from their_rows
    where inst_name is null

),

numbered as (

    select
        {{ attempt_columns }},
        cast(1 as bigint) as attempt
    from keyed
    where instance_key not in (select several.instance_key from several)

    union all

    select
        {{ attempt_columns }},
        {{ attempt_number() }} as attempt
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
