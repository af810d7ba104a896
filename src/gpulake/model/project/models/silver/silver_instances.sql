with attempts as (

    select * from {{ ref('attempts') }}

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
                {{ surrogate_key(['worker_key', 'machine_key', 'status']) }} asc
        ) as attempt,
        status,
        started_at,
        ended_at,
        {{ seconds_of('ended_at') }} - {{ seconds_of('started_at') }} as run_seconds,
        gpus,
        gpu_type
    from attempts

)

select * from final
