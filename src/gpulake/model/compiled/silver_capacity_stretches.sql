-- GPUs that change from day to day, from a day up to, and without, another. Helios counts those of a cluster daily: a
-- day that it leaves out is as the one before; those before the first are as that. A node of Kubernetes has none before
-- the day on which it was made, and none after the day on which it was gone from the list.

with helios as (

    select * from "landed"."main"."bronze_helios_gpu_numbers"

),

by_hand as (

    select * from "landed"."main"."bronze_machines"

),

counted as (

    select
        cast(hash(lower(cluster), '(all machines)') >> 1 as bigint) as machine_key,
        date as dt,
        max(case when isfinite(gpus) then gpus end) as gpus
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
    from __dbt__cte__kubernetes_nodes
    where made_on is not null

    union all

    select
        machine_key,
        cast(0 as double) as gpus,
        cast(gone_on + 1 as date) as valid_from,
        date '9999-12-31' as valid_until
    from __dbt__cte__kubernetes_nodes
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

-- test: a_stretch_of_a_machine_begins_once() error
select machine_key, valid_from
from "lake"."main"."silver_capacity_stretches"
group by machine_key, valid_from
having count(*) > 1

-- test: not_null_silver_capacity_stretches_gpus(gpus) error
where gpus is null

-- test: not_null_silver_capacity_stretches_machine_key(machine_key) error
where machine_key is null

-- test: not_null_silver_capacity_stretches_valid_from(valid_from) error
where valid_from is null

-- test: not_null_silver_capacity_stretches_valid_until(valid_until) error
where valid_until is null
