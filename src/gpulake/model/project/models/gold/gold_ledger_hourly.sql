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
        {{ sum_buckets(buckets()) }},
        sum(recorded_down_gpu_hours) as recorded_down_gpu_hours,
        sum(inferred_gpu_hours) as inferred_gpu_hours,
        sum(overcommitted_gpu_hours) as overcommitted_gpu_hours
    from machine_hours
    group by cluster_id, started_at, dt, gpu_type

)

select * from final
order by cluster_id, started_at, gpu_type
