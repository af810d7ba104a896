-- An inventory says what there is. Without one, capacity is what the settings say of the cluster, or else the most
-- that was ever held at once; where jobs are known to run on this machine or on that one, settings add what these lack.

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

shown as (

    select
        cluster_id,
        sum(gpus) as gpus
    from peaks
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
        gpu_type,
        cast(gpus as double) as gpus,
        'inventory' as basis
    from machines
    where cluster_id in (select placed.cluster_id from placed)

    union all

    select
        cluster_id,
        machine_key,
        gpu_type,
        cast(gpus as double) as gpus,
        'inventory' as basis
    from pooled

    union all

    select
        cluster_id,
        machine_key,
        gpu_type,
        gpus,
        'settings' as basis
    from lacking
    where gpus > 0

    union all

    select
        cluster_id,
        machine_key,
        gpu_type,
        gpus,
        'peak' as basis
    from peaks
    where gpus > 0

)

select * from final

-- test: accepted_values_silver_capacity_basis__inventory__settings__peak(basis) error
where basis not in ('inventory', 'settings', 'peak')

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
