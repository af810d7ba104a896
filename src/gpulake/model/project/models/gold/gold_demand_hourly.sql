-- Tasks that wait and GPUs that are held are intervals: each is cut into the hours that it touches.

with tasks as (

    select * from {{ ref('silver_tasks') }}
    where requested_gpus > 0

),

hours as (

    select * from {{ ref('silver_hours') }}

),

clusters as (

    select * from {{ ref('silver_clusters') }}

),

ledger as (

    select * from {{ ref('gold_ledger_hourly') }}

),

asked as (

    select
        tasks.cluster_id,
        coalesce(tasks.gpu_type, 'unknown') as gpu_type,
        tasks.requested_gpus * coalesce(tasks.planned_instances, 1) as gpus,
        clusters.hour_shift_seconds as shift,
        {{ seconds_of('tasks.launched_at') }} as launch_seconds,
        {{ seconds_of(latest(['tasks.launched_at', 'clusters.observed_from'])) }} as begin_seconds,
        -- What never began waits for as long as anyone looked, unless it ended first.
        {{ seconds_of(earliest(['coalesce(tasks.started_at, tasks.ended_at)', 'clusters.observed_until'])) }}
            as end_seconds
    from tasks
    inner join clusters on tasks.cluster_id = clusters.cluster_id
    where tasks.launched_at is not null

),

submitted as (

    select
        cluster_id,
        gpu_type,
        {{ hour_number('launch_seconds', 'shift') }} as hour_number,
        cast(count(*) as bigint) as submitted_tasks,
        sum(gpus) as requested_gpus
    from asked
    group by cluster_id, gpu_type, hour_number

),

pieces as (

    select
        *,
        {{ each_number(
            hour_number('begin_seconds', 'shift'), hour_number('end_seconds', 'shift') ~ ' + 1'
        ) }} as hour_number
    from asked
    where end_seconds > begin_seconds

),

waiting as (

    select
        cluster_id,
        gpu_type,
        hour_number,
        sum(gpus * {{ hours_within('begin_seconds', 'end_seconds', 'hour_number', 'shift') }}) as waiting_gpu_hours
    from pieces
    group by cluster_id, gpu_type, hour_number

),

held as (

    select
        cluster_id,
        gpu_type,
        started_at,
        capacity_gpu_hours - down_gpu_hours as available_gpu_hours,
        capacity_gpu_hours - down_gpu_hours - unallocated_gpu_hours as held_gpu_hours
    from ledger

),

kinds as (

    select
        cluster_id,
        gpu_type
    from submitted
    union distinct
    select
        cluster_id,
        gpu_type
    from held

),

final as (

    select
        hours.cluster_id,
        hours.started_at,
        hours.dt,
        kinds.gpu_type,
        coalesce(submitted.submitted_tasks, 0) as submitted_tasks,
        coalesce(submitted.requested_gpus, 0) as requested_gpus,
        coalesce(waiting.waiting_gpu_hours, 0) as waiting_gpu_hours,
        coalesce(held.held_gpu_hours, 0) as held_gpu_hours,
        coalesce(waiting.waiting_gpu_hours, 0) + coalesce(held.held_gpu_hours, 0) as demanded_gpu_hours,
        coalesce(held.available_gpu_hours, 0) as available_gpu_hours
    from hours
    inner join kinds on hours.cluster_id = kinds.cluster_id
    left join submitted
        on
            hours.cluster_id = submitted.cluster_id
            and hours.hour_number = submitted.hour_number
            and kinds.gpu_type = submitted.gpu_type
    left join waiting
        on
            hours.cluster_id = waiting.cluster_id
            and hours.hour_number = waiting.hour_number
            and kinds.gpu_type = waiting.gpu_type
    left join held
        on
            hours.cluster_id = held.cluster_id
            and hours.started_at = held.started_at
            and kinds.gpu_type = held.gpu_type
    where hours.observed_seconds > 0

)

select * from final
order by cluster_id, started_at, gpu_type
