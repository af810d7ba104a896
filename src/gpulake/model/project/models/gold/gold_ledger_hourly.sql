with machine_hours as (

    select * from {{ ref('gold_machine_hours') }}

),

final as (

    select
        cluster_id,
        started_at,
        dt,
        gpu_type,
        sum(capacity_gpu_hours) as capacity_gpu_hours,
        {{ sum_buckets(buckets() + ['lost'] + held_notes() + ['recorded_down', 'overcommitted']) }}
    from machine_hours
    group by cluster_id, started_at, dt, gpu_type

)

select * from final
order by cluster_id, started_at, gpu_type
