-- Outages of nodes as Slurm's accounting has them; of an event in several dumps the one that knows its end.

with dumped as (

    select * from "landed"."main"."bronze_slurm_node_events"
    where "NodeName" is not null

),

known as (

    select * from "landed"."main"."known_clusters"

),

named as (

    select
        *,
        coalesce(lower("Cluster"), (
        select case when count(distinct lower("Cluster")) = 1 then max(lower("Cluster")) end
        from "landed"."main"."bronze_slurm_jobs"
    ), 'slurm') as cluster_id
    from dumped

),

zoned as (

    select
        named.*,
        coalesce(named.time_zone, known.time_zone, 'UTC') as zone
    from named
    left join known on named.cluster_id = known.cluster_id

),

timed as (

    select
        *,
        case
        when zone = zone then timezone(zone, "TimeStart")
        else timezone(zone, "TimeStart")
    end as started_at,
        case
        when zone = zone then timezone(zone, "TimeEnd")
        else timezone(zone, "TimeEnd")
    end as ended_at
    from zoned

),

once as (

    
    with keyed as not materialized (

        select
            *,
            cast(hash(cluster_id, "NodeName", started_at) >> 1 as bigint) as row_key
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
    qualify row_number() over (partition by row_key order by ended_at asc nulls last, asked_at desc nulls last, "State" asc, keyed) = 1


)

select
    cluster_id,
    "NodeName" as node,
    condition,
    "Reason" as reason,
    "User" as reason_by,
    started_at,
    ended_at,
    asked_at
from once
