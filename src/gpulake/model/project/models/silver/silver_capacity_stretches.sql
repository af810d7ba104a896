-- GPUs that change from day to day, from a day up to, and without, another. Helios counts those of a cluster daily: a
-- day that it leaves out is as the one before; those before the first are as that. A node of Kubernetes has none before
-- the day on which it was made, and none after the day on which it was gone from the list.

with helios as (

    select * from {{ source('landed', 'bronze_helios_gpu_numbers') }}

),

by_hand as (

    select * from {{ source('landed', 'bronze_machines') }}

),

counted as (

    select
        {{ pool_key('lower(cluster)') }} as machine_key,
        date as dt,
        max({{ finite('gpus') }}) as gpus
    from helios
    where vc = 'total' and lower(cluster) not in (select coalesce(lower(by_hand.cluster), 'slurm') from by_hand)
    group by 1, 2

),

final as (

    select
        machine_key,
        cast(0 as double) as gpus,
        date '0001-01-01' as valid_from,
        made_on as valid_until
    from {{ ref('kubernetes_nodes') }}
    where made_on is not null

    union all

    select
        machine_key,
        cast(0 as double) as gpus,
        {{ next_day('gone_on') }} as valid_from,
        date '9999-12-31' as valid_until
    from {{ ref('kubernetes_nodes') }}
    where gone_on is not null

    union all

    select
        machine_key,
        gpus,
        case when lag(dt) over by_day is null then date '0001-01-01' else dt end as valid_from,
        coalesce(lead(dt) over by_day, date '9999-12-31') as valid_until
    from counted
    where gpus is not null
    window by_day as (partition by machine_key order by dt)

)

select * from final
