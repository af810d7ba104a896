-- Slurm's reservations, as they were last listed. One that a later snapshot of the nodes no longer finds before its end
-- was deleted; nobody knows whether one took place that was last listed before its begin.

with listed as (

    select
        *,
        coalesce(lower(cluster), (
        select case when count(distinct lower("Cluster")) = 1 then max(lower("Cluster")) end
        from "landed"."main"."bronze_slurm_jobs"
    ), 'slurm') as cluster_id
    from "landed"."main"."bronze_slurm_reservations"
    where asked_at is not null

),

known as (

    select * from "landed"."main"."known_clusters"

),

snapshots as (

    select distinct
        cluster_id,
        asked_at
    from __dbt__cte__slurm_snapshots

),

zoned as (

    select
        listed.*,
        coalesce(listed.time_zone, known.time_zone, 'UTC') as zone
    from listed
    left join known on listed.cluster_id = known.cluster_id

),

timed as (

    select
        *,
        case
        when zone = zone then timezone(zone, "StartTime")
        else timezone(zone, "StartTime")
    end as started_at,
        case
        when zone = zone then timezone(zone, "EndTime")
        else timezone(zone, "EndTime")
    end as planned_until
    from zoned

),

once as (

    
    with keyed as not materialized (

        select
            *,
            cast(hash(cluster_id, "ReservationName", started_at) >> 1 as bigint) as row_key
        from timed

    ),

    repeated as (

        select row_key
        from keyed
        group by row_key
        having count(*) > 1

    )

    select * from keyed
    where row_key not in (select row_key from repeated)

    union all

    select * from keyed
    where row_key in (select row_key from repeated)
    qualify row_number() over (partition by row_key order by asked_at desc, planned_until desc nulls last, keyed) = 1


),

missed as (

    select
        once.row_key,
        min(snapshots.asked_at) as missed_at
    from once
    inner join snapshots on once.cluster_id = snapshots.cluster_id and once.asked_at < snapshots.asked_at
    group by once.row_key

)

select
    once.cluster_id,
    once."ReservationName" as reservation_id,
    once.started_at,
    once.planned_until,
    case
        when once.asked_at < once.started_at and missed.missed_at is not null then once.started_at
        else greatest(once.started_at, least(once.planned_until, missed.missed_at))
    end as ended_at,
    once.asked_at as last_listed_at,
    missed.missed_at,
    once.node_names as nodes,
    once.gpus,
    once."Flags" as flags,
    once."Users" as users,
    once."Groups" as groups,
    once."Accounts" as accounts,
    once."PartitionName" as partition_id,
    coalesce(',' || once."Flags" || ',' like '%,MAINT,%', false) as is_maintenance
from once
left join missed on once.row_key = missed.row_key
