-- Machines of an inventory, not pools. The state of one is inferred unless an outage of it is recorded in the time
-- under observation, or the scheduler was asked for its state in it.

with capacity as (

    select * from "lake"."main"."silver_capacity"

),

clusters as (

    select * from "lake"."main"."silver_clusters"

),

recorded as (

    select case
        when clusters.cluster_id in ('pai', 'synth') then cast(hash(records.machine) >> 1 as bigint)
        else cast(hash(clusters.cluster_id, records.machine) >> 1 as bigint)
    end as machine_key
    from "landed"."main"."bronze_outages" as records
    inner join clusters on coalesce(lower(records.cluster), 'slurm') = clusters.cluster_id
    where
        records.started_at < clusters.observed_until
        and coalesce(records.ended_at, clusters.observed_until) > clusters.observed_from

    union

    select states.machine_key
    from "lake"."main"."silver_machine_states" as states
    inner join clusters on states.cluster_id = clusters.cluster_id
    where states.started_at < clusters.observed_until and states.ended_at > clusters.observed_from

)

select
    cluster_id,
    machine_key,
    coalesce(gpu_type, 'unknown') as gpu_type,
    machine_key in (select recorded.machine_key from recorded) as is_recorded
from capacity
where basis = 'inventory' and machine_key != cast(hash(cluster_id, '(all machines)') >> 1 as bigint)
