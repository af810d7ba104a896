with reservations as (

    select * from "lake"."main"."silver_reservations"

),

clusters as (

    select * from "lake"."main"."silver_clusters"

),

machines as (

    select * from "lake"."main"."silver_machines"

),

jobs as (

    select * from "lake"."main"."silver_jobs"
    where reservation_id is not null

),

holdings as (

    select * from "lake"."main"."silver_holdings"

),

-- As far as it has passed.
passed as (

    select
        reservations.* replace (
            least(reservations.ended_at, clusters.observed_until) as ended_at
        )
    from reservations
    inner join clusters on reservations.cluster_id = clusters.cluster_id

),

placed as (

    select
        cluster_id,
        reservation_id,
        started_at,
        unnest(string_split(nodes, ',')) as node
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
    inner join machines on case
        when placed.cluster_id in ('pai', 'synth') then cast(hash(placed.node) >> 1 as bigint)
        else cast(hash(placed.cluster_id, placed.node) >> 1 as bigint)
    end = machines.machine_key
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
                least((epoch_us(holdings.held_until) / 1e6), (epoch_us(passed.ended_at) / 1e6))
                - greatest((epoch_us(holdings.held_from) / 1e6), (epoch_us(passed.started_at) / 1e6))
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
        * ((epoch_us(passed.ended_at) / 1e6) - (epoch_us(passed.started_at) / 1e6)) / 3600 as reserved_gpu_hours,
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

-- test: a_reservation_is_counted_once() error
select cluster_id, reservation_id, started_at
from "lake"."main"."gold_reservations"
group by cluster_id, reservation_id, started_at
having count(*) > 1

-- test: in_range_gold_reservations_0__gpus(gpus) error
where false
    or gpus < 0

-- test: in_range_gold_reservations_0__held_gpu_hours(held_gpu_hours) error
where false
    or held_gpu_hours < 0

-- test: in_range_gold_reservations_0__jobs(jobs) error
where false
    or jobs < 0

-- test: in_range_gold_reservations_0__reserved_gpu_hours(reserved_gpu_hours) error
where false
    or reserved_gpu_hours < 0

-- test: in_range_gold_reservations_0__unused_gpu_hours(unused_gpu_hours) error
where false
    or unused_gpu_hours < 0

-- test: not_null_gold_reservations_cluster_id(cluster_id) error
where cluster_id is null

-- test: not_null_gold_reservations_ended_at(ended_at) error
where ended_at is null

-- test: not_null_gold_reservations_gpus(gpus) error
where gpus is null

-- test: not_null_gold_reservations_held_gpu_hours(held_gpu_hours) error
where held_gpu_hours is null

-- test: not_null_gold_reservations_is_maintenance(is_maintenance) error
where is_maintenance is null

-- test: not_null_gold_reservations_jobs(jobs) error
where jobs is null

-- test: not_null_gold_reservations_reservation_id(reservation_id) error
where reservation_id is null

-- test: not_null_gold_reservations_reserved_gpu_hours(reserved_gpu_hours) error
where reserved_gpu_hours is null

-- test: not_null_gold_reservations_started_at(started_at) error
where started_at is null

-- test: not_null_gold_reservations_unused_gpu_hours(unused_gpu_hours) error
where unused_gpu_hours is null
