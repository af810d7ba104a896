-- Capacity that was down is nobody's; of the rest, what was held is shared out as it was used. Where more was held than
-- there was, as GPU sharing and inferred intervals allow, all of it shrinks alike and the excess is stated.

{% set overlap -%}
    {{ seconds_of('least(outages.ended_at, hours.observed_until)') }}
    - {{ seconds_of('greatest(outages.started_at, hours.observed_from)') }}
{%- endset %}

with hours as (

    select * from {{ ref('silver_hours') }}

),

capacity as (

    select * from {{ ref('silver_capacity') }}

),

changes as (

    select * from {{ ref('capacity_stretches') }}

),

held as (

    select * from {{ ref('silver_held_hours') }}

),

outages as (

    select * from {{ ref('silver_outages') }}

),

down as (

    select
        outages.machine_key,
        hours.hour_number,
        sum({{ overlap }}) / 3600 as hours,
        sum(case when outages.basis = 'recorded' then {{ overlap }} else 0 end) / 3600 as recorded_hours
    from outages
    inner join hours
        on
            outages.cluster_id = hours.cluster_id
            and outages.started_at < hours.observed_until
            and outages.ended_at > hours.observed_from
    group by outages.machine_key, hours.hour_number

),

spine as (

    select
        capacity.cluster_id,
        capacity.machine_key,
        hours.hour_number,
        hours.started_at,
        hours.dt,
        coalesce(capacity.gpu_type, 'unknown') as gpu_type,
        coalesce(changes.gpus, capacity.gpus) * hours.observed_seconds / 3600 as capacity_gpu_hours,
        coalesce(changes.gpus, capacity.gpus) as gpus
    from capacity
    inner join hours on capacity.cluster_id = hours.cluster_id
    left join changes
        on
            capacity.machine_key = changes.machine_key
            and hours.dt >= changes.valid_from
            and hours.dt < changes.valid_until
    where hours.observed_seconds > 0

),

joined as (

    select
        spine.*,
        least(coalesce(down.hours, 0) * spine.gpus, spine.capacity_gpu_hours) as down_gpu_hours,
        least(coalesce(down.recorded_hours, 0) * spine.gpus, spine.capacity_gpu_hours) as recorded_down_gpu_hours,
        coalesce(held.idle_gpu_hours, 0) as idle_gpu_hours,
        coalesce(held.under_used_gpu_hours, 0) as under_used_gpu_hours,
        coalesce(held.lost_gpu_hours, 0) as lost_gpu_hours,
        coalesce(held.unobserved_gpu_hours, 0) as unobserved_gpu_hours,
        coalesce(held.productive_gpu_hours, 0) as productive_gpu_hours,
        coalesce(held.inferred_gpu_hours, 0) as inferred_gpu_hours,
        coalesce(
            held.idle_gpu_hours + held.under_used_gpu_hours + held.lost_gpu_hours + held.unobserved_gpu_hours
            + held.productive_gpu_hours,
            0
        ) as claimed_gpu_hours
    from spine
    left join held on spine.machine_key = held.machine_key and spine.hour_number = held.hour_number
    left join down on spine.machine_key = down.machine_key and spine.hour_number = down.hour_number

),

shares as (

    select
        *,
        case
            when claimed_gpu_hours > capacity_gpu_hours - down_gpu_hours
                then (capacity_gpu_hours - down_gpu_hours) / claimed_gpu_hours
            else 1
        end as share
    from joined

),

final as (

    select
        cluster_id,
        machine_key,
        started_at,
        dt,
        gpu_type,
        capacity_gpu_hours,
        down_gpu_hours,
        greatest(capacity_gpu_hours - down_gpu_hours - claimed_gpu_hours * share, 0) as unallocated_gpu_hours,
        idle_gpu_hours * share as idle_gpu_hours,
        under_used_gpu_hours * share as under_used_gpu_hours,
        lost_gpu_hours * share as lost_gpu_hours,
        unobserved_gpu_hours * share as unobserved_gpu_hours,
        productive_gpu_hours * share as productive_gpu_hours,
        recorded_down_gpu_hours,
        inferred_gpu_hours * share as inferred_gpu_hours,
        claimed_gpu_hours * (1 - share) as overcommitted_gpu_hours
    from shares

)

select * from final
