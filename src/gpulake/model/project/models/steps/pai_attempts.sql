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
        -- Repeated rows have this in common.
        {{ surrogate_key(['inst_name', 'worker_name']) }} as pair_key,
        {{ pai_cluster('job_name') }} as cluster_id,
        task_name,
        {{ pai_status('status') }} as status,
        {{ pai_instant('start_time') }} as started_at,
        {{ pai_instant('end_time') }} as ended_at
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
            order by {{ status_rank('status') }}, machine_key
        ) = 1

),

told_again as (

    select
        *,
        row_number() over (
            partition by instance_key, pair_key
            order by {{ status_rank('status') }}, started_at desc nulls last, ended_at desc nulls last
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

    select {{ attempt_columns }}
    from keyed
    where inst_name is not null and pair_key not in (select repeated.pair_key from repeated)

    union all

    select {{ attempt_columns }}
    from told_again
    where status not in ('running', 'waiting') or finality = 1

    union all

    -- Equal instances without a name cannot be distinguished.
    select distinct {{ attempt_columns }}
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
    -- Without the row of its task its request is unknown.
    plans.requested_gpus as gpus,
    coalesce(machines.gpu_type, plans.gpu_type) as gpu_type
from told_once
left join plans on told_once.task_key = plans.task_key
left join machines on told_once.machine_key = machines.machine_key
where told_once.worker_key is not null or told_once.instance_key not in (select begun.instance_key from begun)
