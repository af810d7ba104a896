-- An estimate: a GPU that is in use draws its busy power, any other that is up its idle power. Attempts without a
-- sensor are taken to use their GPUs as those with one did on that day.

with ledger as (

    select
        cluster_id,
        dt,
        gpu_type,
        sum(capacity_gpu_hours) as capacity_gpu_hours,
        {{ sum_buckets(buckets()) }}
    from {{ ref('gold_ledger_hourly') }}
    group by cluster_id, dt, gpu_type

),

kinds as (

    select * from {{ source('landed', 'known_gpu_types') }}

),

parameters as (

    select * from {{ source('landed', 'parameters') }}

),

busy as (

    select
        *,
        {{ held_gpu_hours() }} as held_gpu_hours,
        used_gpu_hours + ({{ lost_gpu_hours() }} + unobserved_gpu_hours) * coalesce(
            used_gpu_hours / nullif(used_gpu_hours + under_used_gpu_hours + idle_gpu_hours, 0), 0
        ) as busy_gpu_hours
    from ledger

),

final as (

    select
        busy.cluster_id,
        busy.dt,
        busy.gpu_type,
        busy.capacity_gpu_hours,
        busy.held_gpu_hours,
        busy.busy_gpu_hours,
        (
            busy.busy_gpu_hours * kinds.busy_watts
            + (busy.capacity_gpu_hours - busy.down_gpu_hours - busy.busy_gpu_hours) * kinds.idle_watts
        ) / 1000 as energy_kilowatt_hours,
        greatest(busy.held_gpu_hours - busy.busy_gpu_hours, 0) * kinds.idle_watts / 1000
            as wasted_energy_kilowatt_hours,
        busy.capacity_gpu_hours * kinds.price_per_hour as capacity_cost,
        busy.held_gpu_hours * kinds.price_per_hour as held_cost,
        (busy.idle_gpu_hours + {{ lost_gpu_hours() }}) * kinds.price_per_hour as wasted_cost,
        busy.under_used_gpu_hours * kinds.price_per_hour as under_used_cost,
        parameters.currency
    from busy
    left join kinds on busy.gpu_type = kinds.gpu_type
    cross join parameters

)

select * from final
order by cluster_id, dt, gpu_type
