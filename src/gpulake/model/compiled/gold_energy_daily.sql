-- An estimate: a GPU that is in use draws its busy power, any other that is up its idle power. Attempts without a
-- sensor, and those that were lost, are taken to use their GPUs as the measured ones of the cluster did on that day, or
-- on all days where none was measured on it; all of them where nothing was measured at all. Exports assume the same.

with ledger as (

    select
        cluster_id,
        dt,
        gpu_type,
        sum(capacity_gpu_hours) as capacity_gpu_hours,
        sum(down_gpu_hours) as down_gpu_hours, sum(unknown_gpu_hours) as unknown_gpu_hours, sum(unallocated_gpu_hours) as unallocated_gpu_hours, sum(idle_gpu_hours) as idle_gpu_hours, sum(under_used_gpu_hours) as under_used_gpu_hours, sum(failed_gpu_hours) as failed_gpu_hours, sum(timed_out_gpu_hours) as timed_out_gpu_hours, sum(interrupted_gpu_hours) as interrupted_gpu_hours, sum(unobserved_gpu_hours) as unobserved_gpu_hours, sum(used_gpu_hours) as used_gpu_hours, sum(lost_at_least_gpu_hours) as lost_at_least_gpu_hours
    from "lake"."main"."gold_ledger_hourly"
    group by cluster_id, dt, gpu_type

),

kinds as (

    select * from "lake"."main"."silver_gpu_types"

),

parameters as (

    select * from "landed"."main"."parameters"

),

measured as (

    select
        cluster_id,
        dt,
        sum(used_gpu_hours) as busy_hours,
        sum(used_gpu_hours + under_used_gpu_hours + idle_gpu_hours) as measured_hours
    from ledger
    group by cluster_id, dt

),

assumed as (

    select
        cluster_id,
        dt,
        coalesce(
            busy_hours / nullif(measured_hours, 0),
            sum(busy_hours) over by_cluster / nullif(sum(measured_hours) over by_cluster, 0),
            1
        ) as assumed_busy_ratio,
        case
            when measured_hours > 0 then 'day' when sum(measured_hours) over by_cluster > 0 then 'cluster' else 'none'
        end as assumed_busy_basis
    from measured
    window by_cluster as (partition by cluster_id)

),

busy as (

    select
        ledger.*,
        assumed.assumed_busy_ratio,
        assumed.assumed_busy_basis,
        idle_gpu_hours + under_used_gpu_hours + failed_gpu_hours + timed_out_gpu_hours + interrupted_gpu_hours + unobserved_gpu_hours + used_gpu_hours as held_gpu_hours,
        failed_gpu_hours + timed_out_gpu_hours + interrupted_gpu_hours + ledger.unobserved_gpu_hours as assumed_gpu_hours,
        ledger.used_gpu_hours
        + (failed_gpu_hours + timed_out_gpu_hours + interrupted_gpu_hours + ledger.unobserved_gpu_hours) * assumed.assumed_busy_ratio as busy_gpu_hours
    from ledger
    inner join assumed on ledger.cluster_id = assumed.cluster_id and ledger.dt = assumed.dt

),

final as (

    select
        busy.cluster_id,
        busy.dt,
        busy.gpu_type,
        kinds.gpu_model,
        busy.capacity_gpu_hours,
        busy.held_gpu_hours,
        busy.busy_gpu_hours,
        busy.assumed_gpu_hours,
        busy.assumed_busy_ratio,
        busy.assumed_busy_basis,
        (
            busy.busy_gpu_hours * kinds.busy_watts
            + (busy.capacity_gpu_hours - busy.down_gpu_hours - busy.busy_gpu_hours) * kinds.idle_watts
        ) / 1000 as energy_kilowatt_hours,
        greatest(busy.held_gpu_hours - busy.busy_gpu_hours, 0) * kinds.idle_watts / 1000
            as wasted_energy_kilowatt_hours,
        busy.capacity_gpu_hours * kinds.price_per_hour as capacity_cost,
        busy.held_gpu_hours * kinds.price_per_hour as held_cost,
        (busy.idle_gpu_hours + failed_gpu_hours + timed_out_gpu_hours + interrupted_gpu_hours) * kinds.price_per_hour as wasted_cost,
        (busy.idle_gpu_hours + busy.lost_at_least_gpu_hours) * kinds.price_per_hour as wasted_at_least_cost,
        busy.under_used_gpu_hours * kinds.price_per_hour as under_used_cost,
        parameters.currency
    from busy
    left join kinds on busy.gpu_type = kinds.gpu_type
    cross join parameters

)

select * from final
order by cluster_id, dt, gpu_type

-- test: accepted_values_gold_energy_daily_assumed_busy_basis__day__cluster__none(assumed_busy_basis) error
where assumed_busy_basis not in ('day', 'cluster', 'none')

-- test: energy_is_told_once_a_day() error
select cluster_id, dt, gpu_type
from "lake"."main"."gold_energy_daily"
group by cluster_id, dt, gpu_type
having count(*) > 1

-- test: in_range_gold_energy_daily_0__1__assumed_busy_ratio(assumed_busy_ratio) error
where false
    or assumed_busy_ratio < 0
    or assumed_busy_ratio > 1

-- test: in_range_gold_energy_daily_0__assumed_gpu_hours(assumed_gpu_hours) error
where false
    or assumed_gpu_hours < 0

-- test: in_range_gold_energy_daily_0__busy_gpu_hours(busy_gpu_hours) error
where false
    or busy_gpu_hours < 0

-- test: in_range_gold_energy_daily_0__capacity_cost(capacity_cost) error
where false
    or capacity_cost < 0

-- test: in_range_gold_energy_daily_0__capacity_gpu_hours(capacity_gpu_hours) error
where false
    or capacity_gpu_hours < 0

-- test: in_range_gold_energy_daily_0__energy_kilowatt_hours(energy_kilowatt_hours) error
where false
    or energy_kilowatt_hours < 0

-- test: in_range_gold_energy_daily_0__held_cost(held_cost) error
where false
    or held_cost < 0

-- test: in_range_gold_energy_daily_0__held_gpu_hours(held_gpu_hours) error
where false
    or held_gpu_hours < 0

-- test: in_range_gold_energy_daily_0__under_used_cost(under_used_cost) error
where false
    or under_used_cost < 0

-- test: in_range_gold_energy_daily_0__wasted_at_least_cost(wasted_at_least_cost) error
where false
    or wasted_at_least_cost < 0

-- test: in_range_gold_energy_daily_0__wasted_cost(wasted_cost) error
where false
    or wasted_cost < 0

-- test: in_range_gold_energy_daily_0__wasted_energy_kilowatt_hours(wasted_energy_kilowatt_hours) error
where false
    or wasted_energy_kilowatt_hours < 0

-- test: not_null_gold_energy_daily_assumed_busy_basis(assumed_busy_basis) error
where assumed_busy_basis is null

-- test: not_null_gold_energy_daily_assumed_busy_ratio(assumed_busy_ratio) error
where assumed_busy_ratio is null

-- test: not_null_gold_energy_daily_assumed_gpu_hours(assumed_gpu_hours) error
where assumed_gpu_hours is null

-- test: not_null_gold_energy_daily_busy_gpu_hours(busy_gpu_hours) error
where busy_gpu_hours is null

-- test: not_null_gold_energy_daily_capacity_gpu_hours(capacity_gpu_hours) error
where capacity_gpu_hours is null

-- test: not_null_gold_energy_daily_cluster_id(cluster_id) error
where cluster_id is null

-- test: not_null_gold_energy_daily_currency(currency) error
where currency is null

-- test: not_null_gold_energy_daily_dt(dt) error
where dt is null

-- test: not_null_gold_energy_daily_gpu_type(gpu_type) error
where gpu_type is null

-- test: not_null_gold_energy_daily_held_gpu_hours(held_gpu_hours) error
where held_gpu_hours is null
