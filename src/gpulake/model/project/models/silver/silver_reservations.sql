with reservations as (

    select * from {{ ref('slurm_reservations') }}

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
