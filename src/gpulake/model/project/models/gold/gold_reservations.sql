with reservations as (

    select * from {{ ref('silver_reservations') }}

),

clusters as (

    select * from {{ ref('silver_clusters') }}

),

machines as (

    select * from {{ ref('silver_machines') }}

),

jobs as (

    select * from {{ ref('silver_jobs') }}
    where reservation_id is not null

),

holdings as (

    select * from {{ ref('silver_holdings') }}

),

-- As far as it has passed.
passed as (

    select
        reservations.* replace (
            {{ earliest(['reservations.ended_at', 'clusters.observed_until']) }} as ended_at
        )
    from reservations
    inner join clusters on reservations.cluster_id = clusters.cluster_id

),

placed as (

    select
        cluster_id,
        reservation_id,
        started_at,
        {{ each_item('nodes') }} as node
    from passed

),

-- Slurm lists GPUs of a reservation that asks for them; others are of whole machines.
counted as (

    select
        placed.cluster_id,
        placed.reservation_id,
        placed.started_at,
        sum(machines.gpus) as gpus
    from placed
    inner join machines on {{ machine_key('placed.cluster_id', 'placed.node') }} = machines.machine_key
    group by placed.cluster_id, placed.reservation_id, placed.started_at

),

held as (

    select
        passed.cluster_id,
        passed.reservation_id,
        passed.started_at,
        cast(count(distinct jobs.job_key) as bigint) as jobs,
        sum(
            holdings.gpus * (
                {{ earliest([seconds_of('holdings.held_until'), seconds_of('passed.ended_at')]) }}
                - {{ latest([seconds_of('holdings.held_from'), seconds_of('passed.started_at')]) }}
            ) / 3600
        ) as held_gpu_hours
    from passed
    inner join jobs on passed.cluster_id = jobs.cluster_id and passed.reservation_id = jobs.reservation_id
    inner join holdings
        on
            jobs.job_key = holdings.job_key
            and passed.started_at < holdings.held_until
            and passed.ended_at > holdings.held_from
    group by passed.cluster_id, passed.reservation_id, passed.started_at

),

final as (

    select
        passed.cluster_id,
        passed.reservation_id,
        passed.started_at,
        passed.ended_at,
        passed.is_maintenance,
        passed.accounts,
        passed.users,
        coalesce(nullif(passed.gpus, 0), counted.gpus, 0) as gpus,
        coalesce(held.jobs, 0) as jobs,
        coalesce(nullif(passed.gpus, 0), counted.gpus, 0)
        * ({{ seconds_of('passed.ended_at') }} - {{ seconds_of('passed.started_at') }}) / 3600 as reserved_gpu_hours,
        coalesce(held.held_gpu_hours, 0) as held_gpu_hours
    from passed
    left join counted
        on
            passed.cluster_id = counted.cluster_id
            and passed.reservation_id = counted.reservation_id
            and passed.started_at = counted.started_at
    left join held
        on
            passed.cluster_id = held.cluster_id
            and passed.reservation_id = held.reservation_id
            and passed.started_at = held.started_at
    where passed.ended_at > passed.started_at

)

select
    *,
    greatest(reserved_gpu_hours - held_gpu_hours, 0) as unused_gpu_hours
from final
order by cluster_id, started_at, reservation_id
