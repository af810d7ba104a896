-- A node that telemetry names belongs to the cluster whose inventory or scheduler knows it by that name, or by the part
-- of it before the first dot; where none does, or several do, to the cluster that the settings name.

with described as (

    select * from "landed"."main"."bronze_nodes"

),

machines as (

    select
        cluster_id,
        machine_key
    from "lake"."main"."silver_machines"

),

attempts as (

    select
        cluster_id,
        machine_key
    from "lake"."main"."silver_instances"

),

known as (

    select * from "landed"."main"."known_clusters"

),

parameters as (

    select * from "landed"."main"."parameters"

),

seen as (

    select distinct
            node as node_id,
            host_id
        from "landed"."main"."bronze_host_metrics"
        union
    select distinct
            node as node_id,
            host_id
        from "landed"."main"."bronze_link_metrics"
        union
    select distinct
            node as node_id,
            host_id
        from "landed"."main"."bronze_proc_metrics"
        union
    select distinct
            node as node_id,
            host_id
        from "landed"."main"."bronze_gpu_metrics"
        union
    select distinct
            node as node_id,
            host_id
        from "landed"."main"."bronze_gpu_processes"
        union
    select distinct
            node as node_id,
            host_id
        from "landed"."main"."bronze_node_events"
        union
    select distinct
            node as node_id,
            host_id
        from "landed"."main"."bronze_invocations"
        union
    select distinct
        node_id,
        host_id
    from described
    union
    select distinct
        node_id,
        cast(null as varchar) as host_id
    from __dbt__cte__prometheus_samples
    union
    select distinct
        nullif(regexp_extract(file, '^(.+?)(\.[A-Za-z]+)?$', 1), '') as node_id,
        cast(null as varchar) as host_id
    from "landed"."main"."bronze_nvidia_smi"
    union
    select distinct
        nullif(regexp_extract(file, '^(.+?)(\.[A-Za-z]+)?$', 1), '') as node_id,
        cast(null as varchar) as host_id
    from "landed"."main"."bronze_rocm_smi"
    union
    select distinct
        nullif(regexp_extract(file, '^(.+?)([._-](dmesg|kmsg|kern|kernel))?(\.[A-Za-z]+)?$', 1), '') as node_id,
        cast(null as varchar) as host_id
    from "landed"."main"."bronze_kernel_log"
    union
    select distinct
        node_id,
        cast(null as varchar) as host_id
    from __dbt__cte__kubernetes_events

),

nodes as (

    select
        node_id,
        count(distinct host_id) as hosts,
        max(host_id) as host_id
    from seen
    where node_id is not null
    group by node_id

),

clusters as (

    select distinct cluster_id
    from machines
    where exists (select 1 from nodes)
    union
    select distinct cluster_id
    from attempts
    where exists (select 1 from nodes)

),

candidates as (

    select
        nodes.node_id,
        clusters.cluster_id,
        case
        when clusters.cluster_id in ('pai', 'synth') then cast(hash(nodes.node_id) >> 1 as bigint)
        else cast(hash(clusters.cluster_id, nodes.node_id) >> 1 as bigint)
    end as machine_key
    from nodes
    cross join clusters

    union

    select
        nodes.node_id,
        clusters.cluster_id,
        case
        when clusters.cluster_id in ('pai', 'synth') then cast(hash(split_part(nodes.node_id, '.', 1)) >> 1 as bigint)
        else cast(hash(clusters.cluster_id, split_part(nodes.node_id, '.', 1)) >> 1 as bigint)
    end as machine_key
    from nodes
    cross join clusters

),

matches as (

    select
        candidates.node_id,
        candidates.cluster_id,
        candidates.machine_key,
        'inventory' as cluster_basis
    from candidates
    inner join machines
        on candidates.machine_key = machines.machine_key and candidates.cluster_id = machines.cluster_id

    union

    select
        candidates.node_id,
        candidates.cluster_id,
        candidates.machine_key,
        'scheduler' as cluster_basis
    from candidates
    inner join attempts
        on candidates.machine_key = attempts.machine_key and candidates.cluster_id = attempts.cluster_id

),

matched as (

    select
        node_id,
        min(cluster_id) as cluster_id,
        min(machine_key) as machine_key,
        min(cluster_basis) as cluster_basis
    from matches
    group by node_id
    having count(distinct cluster_id) = 1

),

described_nodes as (

    select
        node_id,
        max(cpu_cores) as cores,
        max(cast(mem_mb as double)) * 1048576 as memory_bytes,
        max(cpu_model) as cpu_model,
        nullif(max(cast(cpu_freq_mhz as double)), 0) * 1000000 as core_clock_hertz,
        max(gpus) as gpus,
        max(gpu_name) as gpu_name,
        max(stage) as stage
    from described
    group by node_id

),

specifications as (

    select
        * replace (
            case when memory_bytes between 0 and 1e17 then cast(memory_bytes as bigint) end as memory_bytes,
            case when core_clock_hertz between 0 and 2e10 then cast(core_clock_hertz as bigint) end
                as core_clock_hertz
        )
    from described_nodes

),

placed as (

    select
        nodes.node_id,
        nodes.host_id,
        nodes.hosts,
        coalesce(matched.cluster_id, parameters.telemetry_cluster) as cluster_id,
        matched.machine_key as known_machine_key,
        coalesce(matched.cluster_basis, 'setting') as cluster_basis
    from nodes
    cross join parameters
    left join matched on nodes.node_id = matched.node_id

),

final as (

    select
        placed.node_id,
        placed.cluster_id,
        placed.cluster_basis,
        coalesce(placed.known_machine_key, case
        when placed.cluster_id in ('pai', 'synth') then cast(hash(placed.node_id) >> 1 as bigint)
        else cast(hash(placed.cluster_id, placed.node_id) >> 1 as bigint)
    end) as machine_key,
        coalesce(known.time_zone, 'UTC') as time_zone,
        placed.hosts,
        specifications.stage,
        specifications.cores,
        specifications.core_clock_hertz,
        specifications.memory_bytes,
        specifications.cpu_model,
        specifications.gpus,
        specifications.gpu_name
    from placed
    left join known on placed.cluster_id = known.cluster_id
    left join specifications on placed.node_id = specifications.node_id

)

select * from final

-- test: accepted_values_silver_nodes_cluster_basis__inventory__scheduler__setting(cluster_basis) error
where cluster_basis not in ('inventory', 'scheduler', 'setting')

-- test: in_range_silver_nodes_0__core_clock_hertz(core_clock_hertz) error
where false
    or core_clock_hertz < 0

-- test: in_range_silver_nodes_0__cores(cores) error
where false
    or cores < 0

-- test: in_range_silver_nodes_0__gpus(gpus) error
where false
    or gpus < 0

-- test: in_range_silver_nodes_0__hosts(hosts) error
where false
    or hosts < 0

-- test: in_range_silver_nodes_0__memory_bytes(memory_bytes) error
where false
    or memory_bytes < 0

-- test: not_null_silver_nodes_cluster_basis(cluster_basis) error
where cluster_basis is null

-- test: not_null_silver_nodes_cluster_id(cluster_id) error
where cluster_id is null

-- test: not_null_silver_nodes_hosts(hosts) error
where hosts is null

-- test: not_null_silver_nodes_machine_key(machine_key) error
where machine_key is null

-- test: not_null_silver_nodes_node_id(node_id) error
where node_id is null

-- test: not_null_silver_nodes_time_zone(time_zone) error
where time_zone is null

-- test: unique_silver_nodes_node_id(node_id) error
select
    node_id as unique_field,
    count(*) as n_records

from "lake"."main"."silver_nodes"
where node_id is not null
group by node_id
having count(*) > 1
