-- Of two inventories that have the same machine, the one that is kept by hand counts.

with specifications as (

    select * from "landed"."main"."bronze_machine_spec"

),

by_hand as (

    select
        *,
        coalesce(lower(cluster), 'slurm') as cluster_id
    from "landed"."main"."bronze_machines"

),

philly as (

    select * from "landed"."main"."bronze_philly_machines"

),

-- One id means different nodes in two lists.
openb as (

    select * from (
        select *
        from "landed"."main"."bronze_openb_nodes"
        where
            list = (
                select coalesce(max(case when list = 'openb_node_list_all_node' then list end), min(list))
                from "landed"."main"."bronze_openb_nodes"
            )
    )

),

kubernetes as (

    select * from __dbt__cte__kubernetes_nodes

),

-- Output that does not say how many GPUs a node has is no inventory.
counted as (

    select * from __dbt__cte__slurm_snapshots
    where gpus is not null

),

slurm as (

    
    with keyed as not materialized (

        select
            *,
            case
        when cluster_id in ('pai', 'synth') then cast(hash(node) >> 1 as bigint)
        else cast(hash(cluster_id, node) >> 1 as bigint)
    end as row_key
        from counted

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
    qualify row_number() over (partition by row_key order by asked_at desc, keyed) = 1


),

helios as (

    select * from "landed"."main"."bronze_helios_gpu_numbers"

),

-- Helios says how many GPUs there are, and not in which machines.
pools as (

    select
        lower(cluster) as cluster_id,
        max(case when isfinite(gpus) then gpus end) as gpus
    from helios
    where vc = 'total' and lower(cluster) not in (select by_hand.cluster_id from by_hand)
    group by lower(cluster)

),

listed as (

    select
        case
        when cluster_id in ('pai', 'synth') then cast(hash(machine) >> 1 as bigint)
        else cast(hash(cluster_id, machine) >> 1 as bigint)
    end as machine_key,
        1 as preference,
        cluster_id,
        machine as machine_id,
        gpu_type,
        cast(case when isfinite(gpus) then gpus end as bigint) as gpus,
        case when isfinite(cores) then cores end as cores,
        cast(case when isfinite(memory_gib) then memory_gib end * 1073741824 as bigint) as memory_bytes
    from by_hand

    union all

    select
        cast(hash(machine) >> 1 as bigint) as machine_key,
        2 as preference,
        case when machine like 'synth-%' then 'synth' else 'pai' end as cluster_id,
        machine as machine_id,
        nullif(gpu_type, 'CPU') as gpu_type,
        cast(case when isfinite(cap_gpu) then cap_gpu end as bigint) as gpus,
        case when isfinite(cap_cpu) then cap_cpu end as cores,
        cast(case when isfinite(cap_mem) then cap_mem end * 1073741824 as bigint) as memory_bytes
    from specifications

    union all

    select
        case
        when cluster_id in ('pai', 'synth') then cast(hash(node) >> 1 as bigint)
        else cast(hash(cluster_id, node) >> 1 as bigint)
    end as machine_key,
        2 as preference,
        cluster_id,
        node as machine_id,
        case when gpu_type like '%,%' then 'mixed' else gpu_type end as gpu_type,
        cast(case when isfinite(gpus) then gpus end as bigint) as gpus,
        case when isfinite(cores) then cores end as cores,
        cast(case when isfinite(memory_mib / 1024) then memory_mib / 1024 end * 1073741824 as bigint) as memory_bytes
    from slurm
    where condition != 'future'

    union all

    select
        case
        when 'philly' in ('pai', 'synth') then cast(hash("machineId") >> 1 as bigint)
        else cast(hash('philly', "machineId") >> 1 as bigint)
    end as machine_key,
        2 as preference,
        'philly' as cluster_id,
        "machineId" as machine_id,
        cast(null as varchar) as gpu_type,
        cast(case when isfinite("number_of_GPUs") then "number_of_GPUs" end as bigint) as gpus,
        cast(null as double) as cores,
        cast(null as bigint) as memory_bytes
    from philly

    union all

    select
        case
        when 'openb' in ('pai', 'synth') then cast(hash(sn) >> 1 as bigint)
        else cast(hash('openb', sn) >> 1 as bigint)
    end as machine_key,
        2 as preference,
        'openb' as cluster_id,
        sn as machine_id,
        model as gpu_type,
        cast(case when isfinite(gpu) then gpu end as bigint) as gpus,
        case when isfinite(cpu_milli) then cpu_milli end / 1000 as cores,
        cast(case when isfinite(memory_mib) then memory_mib end * 1048576 as bigint) as memory_bytes
    from openb

    union all

    select
        machine_key,
        2 as preference,
        cluster_id,
        machine_id,
        gpu_type,
        gpus,
        cores,
        memory_bytes
    from kubernetes

    union all

    select
        cast(hash(cluster_id, '(all machines)') >> 1 as bigint) as machine_key,
        2 as preference,
        cluster_id,
        '(all machines)' as machine_id,
        cast(null as varchar) as gpu_type,
        cast(gpus as bigint) as gpus,
        cast(null as double) as cores,
        cast(null as bigint) as memory_bytes
    from pools

),

meant as (

    select
        names.gpu_type,
        models.gpu_model
    from (
        select
            gpu_type,
            regexp_replace(trim(regexp_replace(lower(gpu_type), '[^a-z0-9]+', ' ', 'g')), '([0-9]) gb\b', '\1gb', 'g')
                as words
        from (select distinct gpu_type from listed where gpu_type is not null) as distinct_names
    ) as names
    inner join "landed"."main"."known_gpu_models" as models
        on
            not regexp_matches(names.words, models.part)
            and regexp_matches(regexp_replace(names.words, models.prefix, '', 'g'), models.pattern)
    qualify row_number() over (partition by names.gpu_type order by models.place asc) = 1

),

final as (

    select
        listed.machine_key,
        listed.cluster_id,
        listed.machine_id,
        listed.gpu_type,
        meant.gpu_model,
        listed.gpus,
        listed.cores,
        listed.memory_bytes
    from listed
    left join meant on listed.gpu_type = meant.gpu_type
    qualify
        row_number() over (
            partition by listed.machine_key
            order by
                listed.preference asc,
                listed.gpus desc nulls last,
                listed.cores desc nulls last,
                listed.memory_bytes desc nulls last,
                listed.gpu_type asc
        ) = 1

)

select * from final

-- test: a_machine_of_a_cluster_has_one_row() error
select cluster_id, machine_id
from "lake"."main"."silver_machines"
group by cluster_id, machine_id
having count(*) > 1

-- test: in_range_silver_machines_0__cores(cores) error
where false
    or cores < 0

-- test: in_range_silver_machines_0__gpus(gpus) error
where false
    or gpus < 0

-- test: in_range_silver_machines_0__memory_bytes(memory_bytes) error
where false
    or memory_bytes < 0

-- test: not_null_silver_machines_cluster_id(cluster_id) error
where cluster_id is null

-- test: not_null_silver_machines_machine_id(machine_id) error
where machine_id is null

-- test: not_null_silver_machines_machine_key(machine_key) error
where machine_key is null

-- test: unique_silver_machines_machine_key(machine_key) error
select
    machine_key as unique_field,
    count(*) as n_records

from "lake"."main"."silver_machines"
where machine_key is not null
group by machine_key
having count(*) > 1
