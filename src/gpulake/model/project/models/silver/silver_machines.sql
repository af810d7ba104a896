-- Of two inventories that have the same machine, the one that is kept by hand counts.

with specifications as (

    select * from {{ source('landed', 'bronze_machine_spec') }}

),

by_hand as (

    select
        *,
        coalesce(lower(cluster), 'slurm') as cluster_id
    from {{ source('landed', 'bronze_machines') }}

),

philly as (

    select * from {{ source('landed', 'bronze_philly_machines') }}

),

-- One id means different nodes in two lists.
openb as (

    select * from {{ chosen_list(source('landed', 'bronze_openb_nodes'), 'openb_node_list_all_node') }}

),

kubernetes as (

    select * from {{ ref('kubernetes_nodes') }}

),

-- Output that does not say how many GPUs a node has is no inventory.
counted as (

    select * from {{ ref('slurm_snapshots') }}
    where gpus is not null

),

slurm as (

    {{ newest(
        'counted',
        machine_key('cluster_id', 'node'),
        'asked_at desc'
    ) }}

),

helios as (

    select * from {{ source('landed', 'bronze_helios_gpu_numbers') }}

),

-- Helios says how many GPUs there are, and not in which machines.
pools as (

    select
        lower(cluster) as cluster_id,
        max({{ finite('gpus') }}) as gpus
    from helios
    where vc = 'total' and lower(cluster) not in (select by_hand.cluster_id from by_hand)
    group by lower(cluster)

),

listed as (

    select
        {{ machine_key('cluster_id', 'machine') }} as machine_key,
        1 as preference,
        cluster_id,
        machine as machine_id,
        gpu_type,
        cast({{ finite('gpus') }} as bigint) as gpus,
        {{ finite('cores') }} as cores,
        {{ gibibytes('memory_gib') }} as memory_bytes
    from by_hand

    union all

    select
        {{ surrogate_key(['machine']) }} as machine_key,
        2 as preference,
        {{ pai_cluster('machine') }} as cluster_id,
        machine as machine_id,
        nullif(gpu_type, 'CPU') as gpu_type,
        cast({{ finite('cap_gpu') }} as bigint) as gpus,
        {{ finite('cap_cpu') }} as cores,
        {{ gibibytes('cap_mem') }} as memory_bytes
    from specifications

    union all

    select
        {{ machine_key('cluster_id', 'node') }} as machine_key,
        2 as preference,
        cluster_id,
        node as machine_id,
        case when gpu_type like '%,%' then 'mixed' else gpu_type end as gpu_type,
        cast({{ finite('gpus') }} as bigint) as gpus,
        {{ finite('cores') }} as cores,
        {{ gibibytes('memory_mib / 1024') }} as memory_bytes
    from slurm
    where condition != 'future'

    union all

    select
        {{ machine_key("'philly'", '"machineId"') }} as machine_key,
        2 as preference,
        'philly' as cluster_id,
        "machineId" as machine_id,
        cast(null as varchar) as gpu_type,
        cast({{ finite('"number_of_GPUs"') }} as bigint) as gpus,
        cast(null as double) as cores,
        cast(null as bigint) as memory_bytes
    from philly

    union all

    select
        {{ machine_key("'openb'", 'sn') }} as machine_key,
        2 as preference,
        'openb' as cluster_id,
        sn as machine_id,
        model as gpu_type,
        cast({{ finite('gpu') }} as bigint) as gpus,
        {{ finite('cpu_milli') }} / 1000 as cores,
        cast({{ finite('memory_mib') }} * 1048576 as bigint) as memory_bytes
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
        {{ pool_key('cluster_id') }} as machine_key,
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

    {{ gpu_models_of('listed', 'gpu_type') }}

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
