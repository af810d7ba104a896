-- Attempts of PAI: what they hold is what their task asked for, on the machine that they ran on.

with instances as (

    select * from {{ source('landed', 'bronze_instance_table') }}

),

plans as (

    select * from {{ ref('pai_plans') }}

),

machines as (

    select * from {{ ref('silver_machines') }}

),

keyed as (

    select
        {{ surrogate_key(['job_name']) }} as job_key,
        {{ surrogate_key(['job_name', 'task_name']) }} as task_key,
        {{ surrogate_key(['job_name', 'task_name', 'inst_name']) }} as instance_key,
        case when worker_name is not null then {{ surrogate_key(['worker_name']) }} end as worker_key,
        case when machine is not null then {{ surrogate_key(['machine']) }} end as machine_key,
        task_name,
        {{ pai_status('status') }} as status,
        {{ pai_instant('start_time') }} as started_at,
        {{ pai_instant('end_time') }} as ended_at
    from instances

)

select
    keyed.job_key,
    keyed.task_key,
    keyed.instance_key,
    keyed.worker_key,
    keyed.machine_key,
    'pai' as cluster_id,
    keyed.task_name,
    keyed.status,
    keyed.started_at,
    keyed.ended_at,
    coalesce(plans.requested_gpus, 0) as gpus,
    coalesce(machines.gpu_type, plans.gpu_type) as gpu_type
from keyed
left join plans on keyed.task_key = plans.task_key
left join machines on keyed.machine_key = machines.machine_key
