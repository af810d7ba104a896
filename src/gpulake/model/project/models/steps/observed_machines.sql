-- Machines of the inventory, and those that only telemetry knows, with the GPUs that were sampled.

with machines as (

    select * from {{ ref('silver_machines') }}

),

gpu_hours as (

    select * from {{ ref('silver_gpu_hours') }}

)

select
    cluster_id,
    machine_key,
    gpus,
    cores
from machines

union all

select
    cluster_id,
    machine_key,
    cast(count(distinct gpu) as bigint) as gpus,
    null as cores
from gpu_hours
where machine_key not in (select listed.machine_key from machines as listed)
group by cluster_id, machine_key
