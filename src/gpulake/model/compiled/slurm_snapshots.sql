-- Slurm's nodes as it was asked for them, once per node and snapshot: sinfo lists one by partition.

with asked as (

    select * from "landed"."main"."bronze_slurm_nodes"

),

known as (

    select * from "landed"."main"."known_clusters"

),

named as (

    select
        *,
        coalesce(lower(cluster), (
        select case when count(distinct lower("Cluster")) = 1 then max(lower("Cluster")) end
        from "landed"."main"."bronze_slurm_jobs"
    ), 'slurm') as cluster_id
    from asked

),

once as (

    
    with keyed as not materialized (

        select
            *,
            cast(hash(cluster_id, "NodeName", asked_at) >> 1 as bigint) as row_key
        from named

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
    qualify row_number() over (partition by row_key order by reason_at desc nulls last, gpus desc nulls last, "Partitions" asc nulls last, keyed) = 1


),

zoned as (

    select
        once.*,
        coalesce(once.time_zone, known.time_zone, 'UTC') as zone
    from once
    left join known on once.cluster_id = known.cluster_id

)

select
    cluster_id,
    "NodeName" as node,
    asked_at,
    pulled_from,
    condition,
    "Reason" as reason,
    reason_by,
    case
        when zone = zone then timezone(zone, reason_at)
        else timezone(zone, reason_at)
    end as reason_at,
    case
        when zone = zone then timezone(zone, "LastBusyTime")
        else timezone(zone, "LastBusyTime")
    end as last_busy_at,
    case
        when zone = zone then timezone(zone, "SlurmdStartTime")
        else timezone(zone, "SlurmdStartTime")
    end as slurmd_started_at,
    gpus,
    gpu_type,
    "CPUTot" as cores,
    "RealMemory" as memory_mib,
    "Partitions" as partitions,
    "ActiveFeatures" as features
from zoned
