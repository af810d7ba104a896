-- Machines whose state is inferred: those of an inventory, not pools, of clusters that record no outages.

with capacity as (

    select * from {{ ref('silver_capacity') }}

),

recorded as (

    select coalesce(lower(cluster), 'slurm') as cluster_id
    from {{ source('landed', 'bronze_outages') }}

)

select
    cluster_id,
    machine_key,
    coalesce(gpu_type, 'unknown') as gpu_type
from capacity
where
    basis = 'inventory'
    and machine_key != {{ pool_key('cluster_id') }}
    and cluster_id not in (select recorded.cluster_id from recorded)
