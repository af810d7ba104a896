with instances as (

    select * from {{ ref('silver_instances') }}

),

tasks as (

    select * from {{ ref('silver_tasks') }}

),

jobs as (

    select * from {{ ref('silver_jobs') }}

),

usage as (

    select * from {{ ref('silver_instance_usage') }}

),

-- Only attempts whose begin and end are both known hold time that can be counted.
held as (

    select
        jobs.user_id,
        instances.job_key,
        instances.status,
        instances.started_at,
        instances.ended_at,
        tasks.requested_gpus,
        usage.used_gpus
    from instances
    inner join tasks on instances.task_key = tasks.task_key
    inner join jobs on instances.job_key = jobs.job_key
    left join usage on instances.worker_key = usage.worker_key
    where tasks.requested_gpus > 0 and instances.started_at < instances.ended_at

),

held_days as (

    select
        *,
        {{ each_day(
            local_day('started_at', trace_time_zone()), local_day('ended_at', trace_time_zone())
        ) }} as dt
    from held

),

parts as (

    select
        user_id,
        dt,
        job_key,
        status,
        requested_gpus,
        used_gpus,
        (
            least({{ seconds_of('ended_at') }}, {{ seconds_of(day_begin(next_day('dt'), trace_time_zone())) }})
            - greatest({{ seconds_of('started_at') }}, {{ seconds_of(day_begin('dt', trace_time_zone())) }})
        ) / 3600 as hours
    from held_days

),

final as (

    select
        user_id,
        dt,
        cast(count(distinct job_key) as bigint) as jobs,
        sum(hours * requested_gpus) as held_gpu_hours,
        sum(case when used_gpus is not null then hours * least(used_gpus, requested_gpus) else 0 end) as used_gpu_hours,
        sum(case when used_gpus is not null then hours * greatest(requested_gpus - used_gpus, 0) else 0 end)
            as idle_gpu_hours,
        sum(case when used_gpus is null then hours * requested_gpus else 0 end) as unobserved_gpu_hours,
        sum(case when status in ('failed', 'interrupted') then hours * requested_gpus else 0 end) as failed_gpu_hours
    from parts
    where hours > 0
    group by user_id, dt

)

select * from final
order by dt, user_id
