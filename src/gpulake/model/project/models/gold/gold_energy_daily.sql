-- An estimate: a GPU that is in use draws its busy power, any other that is up its idle power. Attempts without a
-- sensor, and those that were lost, are taken to use their GPUs as the measured ones of the cluster did on that day, or
-- on all days where none was measured on it; all of them where nothing was measured at all. Exports assume the same.

with ledger as (

    select
        cluster_id,
        dt,
        gpu_type,
        sum(capacity_gpu_hours) as capacity_gpu_hours,
        {{ sum_buckets(buckets() + ['lost_at_least']) }}
    from {{ ref('gold_ledger_hourly') }}
    group by cluster_id, dt, gpu_type

),

kinds as (

    select * from {{ ref('silver_gpu_types') }}

),

parameters as (

    select * from {{ source('landed', 'parameters') }}

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
        {{ held_gpu_hours() }} as held_gpu_hours,
        {{ lost_gpu_hours() }} + ledger.unobserved_gpu_hours as assumed_gpu_hours,
        ledger.used_gpu_hours
        + ({{ lost_gpu_hours() }} + ledger.unobserved_gpu_hours) * assumed.assumed_busy_ratio as busy_gpu_hours
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
        (busy.idle_gpu_hours + {{ lost_gpu_hours() }}) * kinds.price_per_hour as wasted_cost,
        (busy.idle_gpu_hours + busy.lost_at_least_gpu_hours) * kinds.price_per_hour as wasted_at_least_cost,
        busy.under_used_gpu_hours * kinds.price_per_hour as under_used_cost,
        parameters.currency
    from busy
    left join kinds on busy.gpu_type = kinds.gpu_type
    cross join parameters

)

select * from final
order by cluster_id, dt, gpu_type
