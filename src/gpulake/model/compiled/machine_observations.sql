-- Streamed: the use of machines over time. Stretches of windows; in clusters without windows, hours in which GPUs were
-- sampled. A stretch counts for all GPUs of its machine: it is shorter than the hour where not all were sampled.

with stretches as not materialized (

    select * from "lake"."main"."silver_machine_stretches"

),

gpu_hours as (

    select * from "lake"."main"."silver_gpu_hours"

),

machines as (

    select * from __dbt__cte__observed_machines

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
        and gpu_hours.cluster_id not in (select windowed.cluster_id from __dbt__cte__window_days as windowed)
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
