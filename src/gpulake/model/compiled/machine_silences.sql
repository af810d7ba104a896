-- Machines that are silent for as long as would usually hold missed_busy_hours hours of work, as busy as the cluster
-- was.

with signs as (

    select * from "lake"."main"."silver_held_hours"

),

clusters as (

    select * from "lake"."main"."silver_clusters"

),

hours as (

    select * from "lake"."main"."silver_hours"

),

watched as (

    select * from __dbt__cte__watched_machines

),

parameters as (

    select * from "landed"."main"."parameters"

),

busy as (

    select
        watched.cluster_id,
        signs.machine_key,
        signs.hour_number
    from signs
    inner join watched on signs.machine_key = watched.machine_key

),

busy_machines as (

    select
        cluster_id,
        hour_number,
        count(*) as machines
    from busy
    group by cluster_id, hour_number

),

-- Busy machine-hours of the cluster, until the end of each hour.
activity as (

    select
        hours.cluster_id,
        hours.hour_number,
        sum(coalesce(busy_machines.machines, 0)) over (
            partition by hours.cluster_id order by hours.hour_number
            rows between unbounded preceding and current row
        ) as until_here,
        sum(coalesce(busy_machines.machines, 0)) over (partition by hours.cluster_id) as in_all,
        min(hours.hour_number) over (partition by hours.cluster_id) as first_hour,
        max(hours.hour_number) over (partition by hours.cluster_id) as last_hour
    from hours
    left join busy_machines
        on hours.cluster_id = busy_machines.cluster_id and hours.hour_number = busy_machines.hour_number

),

bounds as (

    select distinct
        cluster_id,
        in_all,
        first_hour,
        last_hour
    from activity

),

-- The silence before each sign of life, and the one after the last.
followed as (

    select
        busy.*,
        count(*) over (partition by busy.machine_key) as busy_hours,
        lag(busy.hour_number) over (partition by busy.machine_key order by busy.hour_number) as hour_before
    from busy

),

silences as (

    select
        followed.cluster_id,
        followed.machine_key,
        followed.busy_hours,
        bounds.in_all,
        coalesce(followed.hour_before + 1, bounds.first_hour) as from_hour,
        followed.hour_number as until_hour
    from followed
    inner join bounds on followed.cluster_id = bounds.cluster_id

    union all

    select
        followed.cluster_id,
        followed.machine_key,
        max(followed.busy_hours) as busy_hours,
        max(bounds.in_all) as in_all,
        max(followed.hour_number) + 1 as from_hour,
        max(bounds.last_hour) + 1 as until_hour
    from followed
    inner join bounds on followed.cluster_id = bounds.cluster_id
    group by followed.cluster_id, followed.machine_key

),

expected as (

    select
        silences.*,
        coalesce(ends.until_here, 0) - coalesce(begins.until_here, 0) as within
    from silences
    left join activity as begins
        on silences.cluster_id = begins.cluster_id and silences.from_hour - 1 = begins.hour_number
    left join activity as ends
        on silences.cluster_id = ends.cluster_id and silences.until_hour - 1 = ends.hour_number
    where silences.until_hour > silences.from_hour

)

select
    expected.cluster_id,
    expected.machine_key,
    to_timestamp(expected.from_hour * 3600 - clusters.hour_shift_seconds) as started_at,
    to_timestamp(expected.until_hour * 3600 - clusters.hour_shift_seconds) as ended_at
from expected
inner join clusters on expected.cluster_id = clusters.cluster_id
inner join watched on expected.machine_key = watched.machine_key and not watched.is_recorded
cross join parameters
where
    cast(expected.busy_hours as double) * expected.within / nullif(expected.in_all - expected.within, 0)
    >= parameters.missed_busy_hours
