-- An inventory says what there is. Without one, a machine has the GPUs that telemetry saw, or else the most that was
-- ever held at once; settings of the cluster add what these lack.

with machines as (

    select * from "lake"."main"."silver_machines"
    where gpus > 0

),

holdings as (

    select * from "lake"."main"."silver_holdings"

),

clusters as (

    select * from "lake"."main"."silver_clusters"

),

known as (

    select * from "landed"."main"."known_clusters"

),

held as (

    select distinct machine_key from holdings

),

seen as (

    select
        cluster_id,
        machine_key,
        max(node_id) as machine_id,
        max(gpu_name) as gpu_type,
        count(distinct gpu) as gpus,
        min(first_at) as first_at
    from "lake"."main"."silver_gpu_hours"
    where cluster_id not in (select machines.cluster_id from machines)
    group by cluster_id, machine_key

),

-- Where some hold GPUs of nobody knows which machine, and none is known to hold those of a listed one.
homeless as (

    select distinct clusters.cluster_id
    from clusters
    inner join held on cast(hash(clusters.cluster_id, '(all machines)') >> 1 as bigint) = held.machine_key

),

placed as (

    select distinct machines.cluster_id
    from machines
    left join held on machines.machine_key = held.machine_key
    where
        held.machine_key is not null
        or machines.cluster_id not in (select homeless.cluster_id from homeless)

),

-- Machines whose jobs are not known to run on this one or on that one count as one pool.
pooled as (

    select
        clusters.cluster_id,
        cast(hash(clusters.cluster_id, '(all machines)') >> 1 as bigint) as machine_key,
        case when count(distinct machines.gpu_type) > 1 then 'mixed' else any_value(machines.gpu_type) end as gpu_type,
        sum(machines.gpus) as gpus
    from clusters
    inner join machines on clusters.cluster_id = machines.cluster_id
    where clusters.cluster_id not in (select placed.cluster_id from placed)
    group by clusters.cluster_id

),

configured as (

    select
        clusters.cluster_id,
        cast(hash(clusters.cluster_id, '(all machines)') >> 1 as bigint) as machine_key,
        known.gpu_type,
        known.gpus
    from clusters
    inner join known on clusters.cluster_id = known.cluster_id
    where known.gpus > 0 and clusters.cluster_id not in (select machines.cluster_id from machines)

),

unlisted as (

    select holdings.*
    from holdings
    where
        holdings.machine_key is not null
        and holdings.cluster_id not in (select machines.cluster_id from machines)
        and holdings.machine_key not in (select configured.machine_key from configured)

),

edges as (

    select
        cluster_id,
        machine_key,
        gpu_type,
        held_from as edge_at,
        gpus as change
    from unlisted

    union all

    select
        cluster_id,
        machine_key,
        gpu_type,
        held_until as edge_at,
        -gpus as change
    from unlisted

),

-- What ends at a moment has gone before what begins at it.
running as (

    select
        cluster_id,
        machine_key,
        gpu_type,
        sum(change) over (
            partition by machine_key order by edge_at, change rows between unbounded preceding and current row
        ) as gpus
    from edges

),

peaks as (

    select
        cluster_id,
        machine_key,
        max(gpu_type) as gpu_type,
        ceil(max(gpus) - 0.000001) as gpus
    from running
    group by cluster_id, machine_key

),

-- Where jobs are not known to run on this machine or on that one, those that telemetry saw are one pool, too.
sampled as (

    select
        seen.cluster_id,
        case
            when bool_or(held.machine_key is not null) over (partition by seen.cluster_id) then seen.machine_key
            when seen.cluster_id in (select homeless.cluster_id from homeless) then cast(hash(seen.cluster_id, '(all machines)') >> 1 as bigint)
            else seen.machine_key
        end as machine_key,
        seen.machine_id,
        seen.gpu_type,
        seen.gpus,
        seen.first_at
    from seen
    left join held on seen.machine_key = held.machine_key

),

sampled_machines as (

    select
        cluster_id,
        machine_key,
        case when count(*) = 1 then max(machine_id) end as machine_id,
        case when count(distinct gpu_type) > 1 then 'mixed' else max(gpu_type) end as gpu_type,
        sum(gpus) as gpus,
        min(first_at) as first_at
    from sampled
    where machine_key not in (select configured.machine_key from configured)
    group by cluster_id, machine_key

),

begins as (

    select
        machine_key,
        min(held_from) as first_at
    from unlisted
    group by machine_key

),

-- What held more than telemetry saw was there as well. A machine that telemetry saw counts from when it was first seen
-- or held.
found as (

    select
        coalesce(sampled_machines.cluster_id, peaks.cluster_id) as cluster_id,
        coalesce(sampled_machines.machine_key, peaks.machine_key) as machine_key,
        sampled_machines.machine_id,
        coalesce(peaks.gpu_type, sampled_machines.gpu_type) as gpu_type,
        greatest(sampled_machines.gpus, peaks.gpus) as gpus,
        case when sampled_machines.gpus >= coalesce(peaks.gpus, 0) then 'telemetry' else 'peak' end as basis,
        case
            when sampled_machines.gpus is not null
                then least(sampled_machines.first_at, begins.first_at)
        end as counted_from
    from sampled_machines
    full join peaks on sampled_machines.machine_key = peaks.machine_key
    left join begins on peaks.machine_key = begins.machine_key

),

shown as (

    select
        cluster_id,
        sum(gpus) as gpus
    from found
    group by cluster_id

),

lacking as (

    select
        configured.cluster_id,
        configured.machine_key,
        configured.gpu_type,
        configured.gpus - coalesce(shown.gpus, 0) as gpus
    from configured
    left join shown on configured.cluster_id = shown.cluster_id

),

final as (

    select
        cluster_id,
        machine_key,
        machine_id,
        gpu_type,
        cast(gpus as double) as gpus,
        'inventory' as basis,
        cast(null as timestamp with time zone) as counted_from
    from machines
    where cluster_id in (select placed.cluster_id from placed)

    union all

    select
        cluster_id,
        machine_key,
        cast(null as varchar) as machine_id,
        gpu_type,
        cast(gpus as double) as gpus,
        'inventory' as basis,
        cast(null as timestamp with time zone) as counted_from
    from pooled

    union all

    select
        cluster_id,
        machine_key,
        cast(null as varchar) as machine_id,
        gpu_type,
        gpus,
        'settings' as basis,
        cast(null as timestamp with time zone) as counted_from
    from lacking
    where gpus > 0

    union all

    select
        cluster_id,
        machine_key,
        machine_id,
        gpu_type,
        cast(gpus as double) as gpus,
        basis,
        counted_from
    from found
    where gpus > 0

)

select * from final

-- test: accepted_values_silver_capacity_basis__inventory__settings__telemetry__peak(basis) error
where basis not in ('inventory', 'settings', 'telemetry', 'peak')

-- test: in_range_silver_capacity_0__gpus(gpus) error
where false
    or gpus < 0

-- test: not_null_silver_capacity_basis(basis) error
where basis is null

-- test: not_null_silver_capacity_cluster_id(cluster_id) error
where cluster_id is null

-- test: not_null_silver_capacity_gpus(gpus) error
where gpus is null

-- test: not_null_silver_capacity_machine_key(machine_key) error
where machine_key is null

-- test: unique_silver_capacity_machine_key(machine_key) error
select
    machine_key as unique_field,
    count(*) as n_records

from "lake"."main"."silver_capacity"
where machine_key is not null
group by machine_key
having count(*) > 1
