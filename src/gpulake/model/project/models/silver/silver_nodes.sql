-- A node that telemetry names belongs to the cluster whose inventory or scheduler knows it by that name, or by the part
-- of it before the first dot; where none does, or several do, to the cluster that the settings name.

with described as (

    select * from {{ source('landed', 'bronze_nodes') }}

),

machines as (

    select
        cluster_id,
        machine_key
    from {{ ref('silver_machines') }}

),

attempts as (

    select
        cluster_id,
        machine_key
    from {{ ref('silver_instances') }}

),

known as (

    select * from {{ source('landed', 'known_clusters') }}

),

parameters as (

    select * from {{ source('landed', 'parameters') }}

),

seen as (

    {% for table in [
        'host_metrics', 'link_metrics', 'proc_metrics', 'gpu_metrics', 'gpu_processes', 'node_events', 'invocations'
    ] -%}
        select distinct
            node as node_id,
            host_id
        from {{ source('landed', 'bronze_' ~ table) }}
        union
    {% endfor -%}
    select distinct
        node_id,
        host_id
    from described
    union
    select distinct
        node_id,
        cast(null as varchar) as host_id
    from {{ ref('prometheus_samples') }}
    union
    select distinct
        {{ stem('file') }} as node_id,
        cast(null as varchar) as host_id
    from {{ source('landed', 'bronze_nvidia_smi') }}
    union
    select distinct
        {{ stem('file') }} as node_id,
        cast(null as varchar) as host_id
    from {{ source('landed', 'bronze_rocm_smi') }}
    union
    select distinct
        {{ log_node('file') }} as node_id,
        cast(null as varchar) as host_id
    from {{ source('landed', 'bronze_kernel_log') }}
    union
    select distinct
        node_id,
        cast(null as varchar) as host_id
    from {{ ref('kubernetes_events') }}

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
        {{ machine_key('clusters.cluster_id', 'nodes.node_id') }} as machine_key
    from nodes
    cross join clusters

    union

    select
        nodes.node_id,
        clusters.cluster_id,
        {{ machine_key('clusters.cluster_id', "split_part(nodes.node_id, '.', 1)") }} as machine_key
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
            case when {{ is_plausible('memory_bytes') }} then cast(memory_bytes as bigint) end as memory_bytes,
            case when {{ is_plausible('core_clock_hertz') }} then cast(core_clock_hertz as bigint) end
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
        coalesce(placed.known_machine_key, {{ machine_key('placed.cluster_id', 'placed.node_id') }}) as machine_key,
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
