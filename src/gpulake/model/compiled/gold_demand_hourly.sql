-- Tasks that wait and GPUs that are held are intervals: each is cut into the hours that it touches.

with tasks as (

    select * from "lake"."main"."silver_tasks"
    where requested_gpus > 0

),

hours as (

    select * from "lake"."main"."silver_hours"

),

clusters as (

    select * from "lake"."main"."silver_clusters"

),

ledger as (

    select * from "lake"."main"."gold_ledger_hourly"

),

-- Tasks of which something ran without a known begin.
undated as (

    select distinct task_key
    from "lake"."main"."silver_instances"
    where started_at is null and status not in ('waiting', 'unknown')

),

asked as (

    select
        tasks.cluster_id,
        coalesce(tasks.gpu_type, 'unknown') as gpu_type,
        tasks.requested_gpus * coalesce(tasks.planned_instances, 1) as gpus,
        clusters.hour_shift_seconds as shift,
        (epoch_us(tasks.launched_at) / 1e6) as launch_seconds,
        (epoch_us(greatest(tasks.launched_at, clusters.observed_from)) / 1e6) as begin_seconds,
        -- A task that never began waits until the end of observation, unless it ended first. If a task ran without a
        -- recorded begin, its wait is unknown.
        case
            when
                tasks.started_at is not null
                or (undated.task_key is null and (tasks.ended_at is not null or tasks.status = 'waiting'))
                then
                    (epoch_us(least(coalesce(tasks.started_at, tasks.ended_at), clusters.observed_until)) / 1e6)
        end as end_seconds,
        tasks.launched_at >= clusters.observed_from and tasks.launched_at <= clusters.observed_until as is_observed
    from tasks
    inner join clusters on tasks.cluster_id = clusters.cluster_id
    left join undated on tasks.task_key = undated.task_key
    where tasks.launched_at is not null

),

submitted as (

    select
        cluster_id,
        gpu_type,
        cast(floor((launch_seconds + shift) / 3600) as bigint) as hour_number,
        cast(count(*) as bigint) as submitted_tasks,
        sum(gpus) as requested_gpus
    from asked
    where is_observed
    group by cluster_id, gpu_type, hour_number

),

-- What an interval has of its first and of its last hour is counted there; in the hours between it counts whole, from a
-- step up to a step down.
edges as (

    select
        cluster_id,
        gpu_type,
        cast(floor((begin_seconds + shift) / 3600) as bigint) as hour_number,
        gpus
        * (least(end_seconds, cast(floor((begin_seconds + shift) / 3600) as bigint) * 3600 + 3600 - shift) - greatest(begin_seconds, cast(floor((begin_seconds + shift) / 3600) as bigint) * 3600 - shift)) / 3600 as part,
        gpus as step,
        1 as delay
    from asked
    where end_seconds > begin_seconds

    union all

    select
        cluster_id,
        gpu_type,
        cast(floor((end_seconds + shift) / 3600) as bigint) as hour_number,
        case
            when cast(floor((end_seconds + shift) / 3600) as bigint) > cast(floor((begin_seconds + shift) / 3600) as bigint)
                then
                    gpus
                    * (least(end_seconds, cast(floor((end_seconds + shift) / 3600) as bigint) * 3600 + 3600 - shift) - greatest(begin_seconds, cast(floor((end_seconds + shift) / 3600) as bigint) * 3600 - shift)) / 3600
            else 0
        end as part,
        -gpus as step,
        case
            when cast(floor((end_seconds + shift) / 3600) as bigint) > cast(floor((begin_seconds + shift) / 3600) as bigint) then 0 else 1
        end as delay
    from asked
    where end_seconds > begin_seconds

),

changes as (

    select
        cluster_id,
        gpu_type,
        hour_number,
        part,
        0e0 as step
    from edges

    union all

    select
        cluster_id,
        gpu_type,
        hour_number + delay as hour_number,
        0e0 as part,
        step
    from edges

),

summed as (

    select
        cluster_id,
        gpu_type,
        hour_number,
        sum(part) as part,
        sum(step) as step
    from changes
    group by cluster_id, gpu_type, hour_number

),

held as (

    select
        cluster_id,
        gpu_type,
        started_at,
        capacity_gpu_hours - down_gpu_hours as available_gpu_hours,
        idle_gpu_hours + under_used_gpu_hours + failed_gpu_hours + timed_out_gpu_hours + interrupted_gpu_hours + unobserved_gpu_hours + used_gpu_hours as held_gpu_hours
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
    from edges
    union distinct
    select
        cluster_id,
        gpu_type
    from held

),

spine as (

    select
        hours.cluster_id,
        hours.hour_number,
        hours.started_at,
        hours.dt,
        hours.observed_seconds,
        kinds.gpu_type
    from hours
    inner join kinds on hours.cluster_id = kinds.cluster_id

),

waiting as (

    select
        spine.*,
        greatest(
            coalesce(summed.part, 0)
            + sum(coalesce(summed.step, 0)) over (
                partition by spine.cluster_id, spine.gpu_type order by spine.hour_number
                rows between unbounded preceding and current row
            ),
            0
        ) as waiting_gpu_hours
    from spine
    left join summed
        on
            spine.cluster_id = summed.cluster_id
            and spine.hour_number = summed.hour_number
            and spine.gpu_type = summed.gpu_type

),

final as (

    select
        waiting.cluster_id,
        waiting.started_at,
        waiting.dt,
        waiting.gpu_type,
        coalesce(submitted.submitted_tasks, 0) as submitted_tasks,
        coalesce(submitted.requested_gpus, 0) as requested_gpus,
        waiting.waiting_gpu_hours,
        coalesce(held.held_gpu_hours, 0) as held_gpu_hours,
        waiting.waiting_gpu_hours + coalesce(held.held_gpu_hours, 0) as demanded_gpu_hours,
        coalesce(held.available_gpu_hours, 0) as available_gpu_hours
    from waiting
    left join submitted
        on
            waiting.cluster_id = submitted.cluster_id
            and waiting.hour_number = submitted.hour_number
            and waiting.gpu_type = submitted.gpu_type
    left join held
        on
            waiting.cluster_id = held.cluster_id
            and waiting.started_at = held.started_at
            and waiting.gpu_type = held.gpu_type
    where waiting.observed_seconds > 0

)

select * from final
order by cluster_id, started_at, gpu_type

-- test: demand_is_told_once_an_hour() error
select cluster_id, started_at, gpu_type
from "lake"."main"."gold_demand_hourly"
group by cluster_id, started_at, gpu_type
having count(*) > 1

-- test: in_range_gold_demand_hourly_0__available_gpu_hours(available_gpu_hours) error
where false
    or available_gpu_hours < 0

-- test: in_range_gold_demand_hourly_0__demanded_gpu_hours(demanded_gpu_hours) error
where false
    or demanded_gpu_hours < 0

-- test: in_range_gold_demand_hourly_0__held_gpu_hours(held_gpu_hours) error
where false
    or held_gpu_hours < 0

-- test: in_range_gold_demand_hourly_0__requested_gpus(requested_gpus) error
where false
    or requested_gpus < 0

-- test: in_range_gold_demand_hourly_0__submitted_tasks(submitted_tasks) error
where false
    or submitted_tasks < 0

-- test: in_range_gold_demand_hourly_0__waiting_gpu_hours(waiting_gpu_hours) error
where false
    or waiting_gpu_hours < 0

-- test: not_null_gold_demand_hourly_available_gpu_hours(available_gpu_hours) error
where available_gpu_hours is null

-- test: not_null_gold_demand_hourly_cluster_id(cluster_id) error
where cluster_id is null

-- test: not_null_gold_demand_hourly_demanded_gpu_hours(demanded_gpu_hours) error
where demanded_gpu_hours is null

-- test: not_null_gold_demand_hourly_dt(dt) error
where dt is null

-- test: not_null_gold_demand_hourly_gpu_type(gpu_type) error
where gpu_type is null

-- test: not_null_gold_demand_hourly_held_gpu_hours(held_gpu_hours) error
where held_gpu_hours is null

-- test: not_null_gold_demand_hourly_requested_gpus(requested_gpus) error
where requested_gpus is null

-- test: not_null_gold_demand_hourly_started_at(started_at) error
where started_at is null

-- test: not_null_gold_demand_hourly_submitted_tasks(submitted_tasks) error
where submitted_tasks is null

-- test: not_null_gold_demand_hourly_waiting_gpu_hours(waiting_gpu_hours) error
where waiting_gpu_hours is null
