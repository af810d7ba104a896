-- Outages of nodes as Slurm's accounting has them; of an event in several dumps the one that knows its end.

with dumped as (

    select * from {{ source('landed', 'bronze_slurm_node_events') }}
    where "NodeName" is not null

),

known as (

    select * from {{ source('landed', 'known_clusters') }}

),

named as (

    select
        *,
        coalesce(lower("Cluster"), {{ only_slurm_cluster() }}, 'slurm') as cluster_id
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
        {{ instant_of_local('"TimeStart"', 'zone', 'zone') }} as started_at,
        {{ instant_of_local('"TimeEnd"', 'zone', 'zone') }} as ended_at
    from zoned

),

once as (

    {{ newest(
        'timed',
        surrogate_key(['cluster_id', '"NodeName"', 'started_at']),
        'ended_at asc nulls last, asked_at desc nulls last, "State" asc'
    ) }}

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
