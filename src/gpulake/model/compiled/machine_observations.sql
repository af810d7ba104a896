-- Streamed: the use of machines over time. Stretches of windows; in clusters without windows, hours in which GPUs were
-- sampled, and beside them hours in which CPUs were: a row has the one or the other. A stretch counts for all GPUs of
-- its machine: it is shorter than the hour where not all were sampled. A sample of a host is of the hour when it was
-- taken.

with stretches as not materialized (

    select * from "lake"."main"."silver_machine_stretches"

),

gpu_hours as (

    select * from "lake"."main"."silver_gpu_hours"

),

machines as (

    select * from __dbt__cte__observed_machines

),

windowed as (

    select distinct cluster_id from __dbt__cte__window_days

),

hosts as not materialized (

    select
        samples.cluster_id,
        nodes.machine_key,
        samples.sampled_at,
        samples.covers_seconds,
        samples.cpu_busy_ratio
    from "lake"."main"."silver_host_samples" as samples
    inner join "lake"."main"."silver_nodes" as nodes on samples.node_id = nodes.node_id
    where
        samples.cpu_busy_ratio is not null and samples.covers_seconds > 0
        and samples.cluster_id not in (select windowed.cluster_id from windowed)

),

begins as (

    select
        cluster_id,
        min(sampled_at) as first_at
    from hosts
    group by cluster_id

),

zones as (

    select
        begins.cluster_id,
        coalesce(known.time_zone, 'UTC') as time_zone,
        cast(epoch(timezone(coalesce(known.time_zone, 'UTC'), begins.first_at)) - epoch(begins.first_at) + 86400 as bigint) % 3600 as shift
    from begins
    left join "landed"."main"."known_clusters" as known on begins.cluster_id = known.cluster_id

),

host_hours as (

    select
        hosts.cluster_id,
        hosts.machine_key,
        zones.time_zone,
        zones.shift,
        cast(floor(((epoch_us(hosts.sampled_at) / 1e6) + zones.shift) / 3600) as bigint) as hour_number,
        least(sum(hosts.covers_seconds), 3600) as seconds,
        sum(hosts.cpu_busy_ratio * hosts.covers_seconds) / sum(hosts.covers_seconds) as cpu_util_ratio
    from hosts
    inner join zones on hosts.cluster_id = zones.cluster_id
    group by hosts.cluster_id, hosts.machine_key, zones.time_zone, zones.shift, hour_number

),

started as (

    select
        *,
        to_timestamp(hour_number * 3600 - shift) as started_at
    from host_hours

),

machine_hours as (

    select
        gpu_hours.cluster_id,
        gpu_hours.machine_key,
        gpu_hours.dt,
        machines.gpus,
        min(gpu_hours.first_at) as started_at,
        least(sum(gpu_hours.observed_hours) / machines.gpus, 1) * 3600 as seconds,
        sum(gpu_hours.busy_ratio * gpu_hours.observed_hours) / sum(gpu_hours.observed_hours) as busy_ratio
    from gpu_hours
    inner join machines on gpu_hours.machine_key = machines.machine_key
    where
        machines.gpus > 0 and gpu_hours.busy_ratio is not null and gpu_hours.observed_hours > 0
        and gpu_hours.cluster_id not in (select windowed.cluster_id from windowed)
    group by gpu_hours.cluster_id, gpu_hours.machine_key, gpu_hours.dt, gpu_hours.hour_number, machines.gpus

)

select
    cluster_id,
    machine_key,
    dt,
    started_at,
    ended_at,
    seconds,
    busy_gpus,
    cpu_util_ratio
from stretches

union all

select
    cluster_id,
    machine_key,
    dt,
    started_at,
    started_at + to_seconds(seconds) as ended_at,
    seconds,
    busy_ratio * gpus as busy_gpus,
    null as cpu_util_ratio
from machine_hours

union all

select
    cluster_id,
    machine_key,
    cast(timezone(time_zone, started_at) as date) as dt,
    started_at,
    started_at + to_seconds(seconds) as ended_at,
    seconds,
    null as busy_gpus,
    cpu_util_ratio
from started
