-- Slurm's nodes as it was asked for them, once per node and snapshot: sinfo lists one by partition.

with asked as (

    select * from {{ source('landed', 'bronze_slurm_nodes') }}

),

known as (

    select * from {{ source('landed', 'known_clusters') }}

),

named as (

    select
        *,
        coalesce(lower(cluster), {{ only_slurm_cluster() }}, 'slurm') as cluster_id
    from asked

),

once as (

    {{ newest(
        'named',
        surrogate_key(['cluster_id', '"NodeName"', 'asked_at']),
        'reason_at desc nulls last, gpus desc nulls last, "Partitions" asc nulls last'
    ) }}

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
    {{ instant_of_local('reason_at', 'zone', 'zone') }} as reason_at,
    {{ instant_of_local('"LastBusyTime"', 'zone', 'zone') }} as last_busy_at,
    {{ instant_of_local('"SlurmdStartTime"', 'zone', 'zone') }} as slurmd_started_at,
    gpus,
    gpu_type,
    "CPUTot" as cores,
    "RealMemory" as memory_mib,
    "Partitions" as partitions,
    "ActiveFeatures" as features
from zoned
