with instances as (

    select * from {{ source('landed', 'bronze_instance_table') }}

),

keyed as (

    select
        {{ surrogate_key(['job_name']) }} as job_key,
        {{ surrogate_key(['job_name', 'task_name']) }} as task_key,
        {{ surrogate_key(['job_name', 'task_name', 'inst_name']) }} as instance_key,
        case when worker_name is not null then {{ surrogate_key(['worker_name']) }} end as worker_key,
        case when machine is not null then {{ surrogate_key(['machine']) }} end as machine_key,
        task_name,
        {{ canonical_status('status') }} as status,
        {{ trace_instant('start_time') }} as started_at,
        {{ trace_instant('end_time') }} as ended_at
    from instances

),

final as (

    select
        job_key,
        task_key,
        instance_key,
        worker_key,
        machine_key,
        task_name,
        -- Tries that never got anywhere come last: they are still waiting.
        row_number() over (
            partition by instance_key order by coalesce(started_at, ended_at) asc nulls last, ended_at asc nulls last
        ) as attempt,
        status,
        started_at,
        ended_at,
        {{ seconds_of('ended_at') }} - {{ seconds_of('started_at') }} as run_seconds
    from keyed

)

select * from final
