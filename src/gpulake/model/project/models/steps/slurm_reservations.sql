-- Slurm's reservations, as they were last listed. One that a later snapshot of the nodes no longer finds before its end
-- was deleted; nobody knows whether one took place that was last listed before its begin.

with listed as (

    select
        *,
        coalesce(lower(cluster), {{ only_slurm_cluster() }}, 'slurm') as cluster_id
    from {{ source('landed', 'bronze_slurm_reservations') }}
    where asked_at is not null

),

known as (

    select * from {{ source('landed', 'known_clusters') }}

),

snapshots as (

    select distinct
        cluster_id,
        asked_at
    from {{ ref('slurm_snapshots') }}

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
        {{ instant_of_local('"StartTime"', 'zone', 'zone') }} as started_at,
        {{ instant_of_local('"EndTime"', 'zone', 'zone') }} as planned_until
    from zoned

),

once as (

    {{ newest(
        'timed',
        surrogate_key(['cluster_id', '"ReservationName"', 'started_at']),
        'asked_at desc, planned_until desc nulls last'
    ) }}

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
        else {{ latest(['once.started_at', earliest(['once.planned_until', 'missed.missed_at'])]) }}
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
