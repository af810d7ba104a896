with reservations as (

    select * from __dbt__cte__slurm_reservations

),

final as (

    select
        cluster_id,
        reservation_id,
        started_at,
        ended_at,
        planned_until,
        is_maintenance,
        nodes,
        gpus,
        flags,
        users,
        groups,
        accounts,
        partition_id,
        last_listed_at
    from reservations

)

select * from final
order by cluster_id, started_at, reservation_id

-- test: a_reservation_begins_once() error
select cluster_id, reservation_id, started_at
from "lake"."main"."silver_reservations"
group by cluster_id, reservation_id, started_at
having count(*) > 1

-- test: in_range_silver_reservations_0__gpus(gpus) error
where false
    or gpus < 0

-- test: no_reservation_ends_before_it_begins() error
where not (ended_at is null or ended_at >= started_at)

-- test: not_null_silver_reservations_cluster_id(cluster_id) error
where cluster_id is null

-- test: not_null_silver_reservations_is_maintenance(is_maintenance) error
where is_maintenance is null

-- test: not_null_silver_reservations_last_listed_at(last_listed_at) error
where last_listed_at is null

-- test: not_null_silver_reservations_reservation_id(reservation_id) error
where reservation_id is null

-- test: not_null_silver_reservations_started_at(started_at) error
where started_at is null
