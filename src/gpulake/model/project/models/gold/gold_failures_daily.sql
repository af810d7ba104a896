with holdings as (

    select
        *,
        {{ seconds_of('held_until') }} - {{ seconds_of('lost_from') }} as lost_seconds
    from {{ ref('silver_holdings') }}
    where lost_from is not null

),

days as (

    select * from {{ ref('silver_days') }}

),

final as (

    select
        holdings.cluster_id,
        days.dt,
        holdings.status,
        coalesce(holdings.gpu_type, 'unknown') as gpu_type,
        cast(count(*) as bigint) as attempts,
        cast(count(distinct holdings.job_key) as bigint) as jobs,
        cast(count(distinct holdings.machine_key) as bigint) as machines,
        sum(holdings.gpus * holdings.lost_seconds) / 3600 as lost_gpu_hours,
        sum(case when holdings.has_checkpoint then holdings.gpus * holdings.lost_seconds else 0 end) / 3600
            as lost_at_least_gpu_hours,
        sum(case when holdings.is_inferred then holdings.gpus * holdings.lost_seconds else 0 end) / 3600
            as inferred_lost_gpu_hours
    from holdings
    -- On the day of its end, whole.
    inner join days
        on
            holdings.cluster_id = days.cluster_id
            and holdings.held_until >= days.started_at
            and holdings.held_until < days.ended_at
            and holdings.held_until >= days.observed_from
            and holdings.held_until <= days.observed_until
    group by holdings.cluster_id, days.dt, holdings.status, coalesce(holdings.gpu_type, 'unknown')

)

select * from final
order by cluster_id, dt, gpu_type, status
