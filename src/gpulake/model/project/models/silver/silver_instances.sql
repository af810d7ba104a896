with attempts as (

    select * from {{ ref('attempts') }}

),

pai_attempts as (

    select * from {{ ref('pai_attempts') }}

),

numbered as (

    select * from pai_attempts

    union all

    select
        *,
        {{ attempt_number() }} as attempt
    from attempts

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
        attempt,
        status,
        started_at,
        ended_at,
        {{ seconds_of('ended_at') }} - {{ seconds_of('started_at') }} as run_seconds,
        gpus,
        gpu_type
    from numbered

)

select * from final
