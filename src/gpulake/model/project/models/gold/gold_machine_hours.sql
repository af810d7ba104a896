-- Capacity that was down is nobody's; of the rest, what was held is shared out as it was used. Where more was held than
-- there was, as GPU sharing and inferred intervals allow, all of it shrinks alike and the excess is stated. What is
-- left was held by nobody, unless nobody can say, or telemetry says otherwise.

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

    select * from {{ ref('silver_capacity_stretches') }}

),

held as (

    select * from {{ ref('silver_held_hours') }}

),

outages as (

    select * from {{ ref('silver_outages') }}

),

clusters as (

    select * from {{ ref('silver_clusters') }}

),

-- What telemetry says of the GPUs of a machine: in use by anybody, or proved to have no holder.
seen as (

    select
        machine_key,
        hour_number,
        sum(in_use_hours) as in_use_hours,
        sum(free_hours) as free_hours
    from {{ ref('silver_gpu_hours') }}
    group by machine_key, hour_number

),

excesses as (

    select * from {{ ref('silver_excess_hours') }}

),

down as (

    select
        outages.machine_key,
        hours.hour_number,
        sum(case when outages.basis in ('recorded', 'died') then {{ overlap }} else 0 end) / 3600 as hours,
        sum(case when outages.basis = 'recorded' then {{ overlap }} else 0 end) / 3600 as recorded_hours,
        sum(case when outages.basis = 'reported' then {{ overlap }} else 0 end) / 3600 as reported_hours,
        bool_or(outages.basis = 'silent') as is_silent
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
        coalesce(changes.gpus, capacity.gpus) as gpus,
        hours.observed_seconds / 3600 as observed_ratio,
        clusters.has_jobs,
        clusters.unknown_demand_ratio > 0.5 as is_of_unknown_demand
    from capacity
    inner join hours on capacity.cluster_id = hours.cluster_id
    inner join clusters on capacity.cluster_id = clusters.cluster_id
    left join changes
        on
            capacity.machine_key = changes.machine_key
            and hours.dt >= changes.valid_from
            and hours.dt < changes.valid_until
    where hours.observed_seconds > 0 and (capacity.counted_from is null or capacity.counted_from < hours.ended_at)

),

joined as (

    select
        spine.*,
        least(coalesce(down.hours, 0) * spine.gpus, spine.capacity_gpu_hours) as whole_gpu_hours,
        least(coalesce(down.recorded_hours, 0) * spine.gpus, spine.capacity_gpu_hours) as recorded_gpu_hours,
        coalesce(down.reported_hours, 0) * spine.gpus as reported_gpu_hours,
        {% for amount in held_buckets() + held_notes() %}
            coalesce(held.{{ amount }}_gpu_hours, 0) as {{ amount }}_gpu_hours,
        {% endfor %}
        spine.is_of_unknown_demand or coalesce(held.has_unknown_demand, false)
        or coalesce(down.is_silent, false) as is_unknown,
        coalesce(seen.in_use_hours, 0) * spine.observed_ratio as in_use_gpu_hours,
        coalesce(excesses.held_when_sampled_gpu_hours, 0) * spine.observed_ratio as held_when_sampled_gpu_hours,
        coalesce(seen.free_hours, 0) * spine.observed_ratio as seen_free_gpu_hours
    from spine
    left join held on spine.machine_key = held.machine_key and spine.hour_number = held.hour_number
    left join down on spine.machine_key = down.machine_key and spine.hour_number = down.hour_number
    left join seen on spine.machine_key = seen.machine_key and spine.hour_number = seen.hour_number
    left join excesses on spine.machine_key = excesses.machine_key and spine.hour_number = excesses.hour_number

),

claimed as (

    select
        *,
        {{ held_gpu_hours() }} as claimed_gpu_hours
    from joined

),

-- What a job holds on a machine that is being drained is not down.
reported as (

    select
        *,
        least(
            reported_gpu_hours, greatest(capacity_gpu_hours - whole_gpu_hours - claimed_gpu_hours, 0)
        ) as reported_down_gpu_hours
    from claimed

),

withdrawn as (

    select
        *,
        whole_gpu_hours + reported_down_gpu_hours as down_gpu_hours,
        recorded_gpu_hours + reported_down_gpu_hours as recorded_down_gpu_hours
    from reported

),

shares as (

    select
        *,
        case
            when claimed_gpu_hours > capacity_gpu_hours - down_gpu_hours
                then (capacity_gpu_hours - down_gpu_hours) / claimed_gpu_hours
            else 1
        end as share
    from withdrawn

),

left_over as (

    select
        *,
        greatest(capacity_gpu_hours - down_gpu_hours - claimed_gpu_hours * share, 0) as free_gpu_hours,
        in_use_gpu_hours - greatest(claimed_gpu_hours, held_when_sampled_gpu_hours) as excess_gpu_hours
    from shares

),

-- Without records of jobs, only what telemetry proves to be free is. With them, what is in use beyond what they hold,
-- in the hour and when it was sampled, has an unknown holder. Less than a twentieth has not: clocks differ.
judged as (

    select
        *,
        case
            when is_unknown then free_gpu_hours
            when not has_jobs then greatest(free_gpu_hours - seen_free_gpu_hours, 0)
            when excess_gpu_hours > 0.05 * capacity_gpu_hours then least(excess_gpu_hours, free_gpu_hours)
            else 0
        end as unknown_gpu_hours
    from left_over

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
        unknown_gpu_hours,
        free_gpu_hours - unknown_gpu_hours as unallocated_gpu_hours,
        {% for bucket in held_buckets() %}
            {{ bucket }}_gpu_hours * share as {{ bucket }}_gpu_hours,
        {% endfor %}
        ({{ lost_gpu_hours() }}) * share as lost_gpu_hours,
        {% for note in held_notes() %}
            {{ note }}_gpu_hours * share as {{ note }}_gpu_hours,
        {% endfor %}
        recorded_down_gpu_hours,
        claimed_gpu_hours * (1 - share) as overcommitted_gpu_hours
    from judged

)

select * from final
