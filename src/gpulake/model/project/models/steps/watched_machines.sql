-- Machines of an inventory, not pools. The state of one is inferred unless an outage of it is recorded in the time
-- under observation, or the scheduler was asked for its state in it.

with capacity as (

    select * from {{ ref('silver_capacity') }}

),

clusters as (

    select * from {{ ref('silver_clusters') }}

),

recorded as (

    select {{ machine_key('clusters.cluster_id', 'records.machine') }} as machine_key
    from {{ source('landed', 'bronze_outages') }} as records
    inner join clusters on coalesce(lower(records.cluster), 'slurm') = clusters.cluster_id
    where
        records.started_at < clusters.observed_until
        and coalesce(records.ended_at, clusters.observed_until) > clusters.observed_from

    union

    select states.machine_key
    from {{ ref('silver_machine_states') }} as states
    inner join clusters on states.cluster_id = clusters.cluster_id
    where states.started_at < clusters.observed_until and states.ended_at > clusters.observed_from

)

select
    cluster_id,
    machine_key,
    coalesce(gpu_type, 'unknown') as gpu_type,
    machine_key in (select recorded.machine_key from recorded) as is_recorded
from capacity
where basis = 'inventory' and machine_key != {{ pool_key('cluster_id') }}
