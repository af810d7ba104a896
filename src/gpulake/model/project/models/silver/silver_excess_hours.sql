-- Only hours that may have GPUs in use without a job are looked at, sample by sample.

with seen as (

    select
        cluster_id,
        dt,
        machine_key,
        hour_number,
        min(started_at) as started_at,
        max(observed_hours) as longest_hours,
        sum(in_use_hours) as in_use_gpu_hours
    from {{ ref('silver_gpu_hours') }}
    group by cluster_id, dt, machine_key, hour_number

),

held as (

    select
        machine_key,
        hour_number,
        {{ held_gpu_hours() }} as held_gpu_hours
    from {{ ref('silver_held_hours') }}

),

capacity as (

    select * from {{ ref('silver_capacity') }}

),

samples as not materialized (

    select
        *,
        {{ seconds_of('sampled_at') }} as at_seconds,
        {{ quarter_number('sampled_at') }} as quarter
    from {{ ref('silver_gpu_samples') }}
    where covers_seconds > 0

),

holdings as (

    select * from {{ ref('silver_holdings') }}
    where held_seconds > 0

),

-- Less is not counted by gold_machine_hours.
excesses as (

    select
        seen.*,
        {{ seconds_of('seen.started_at') }} as begin_seconds
    from seen
    inner join capacity on seen.machine_key = capacity.machine_key
    left join held on seen.machine_key = held.machine_key and seen.hour_number = held.hour_number
    where
        seen.in_use_gpu_hours - coalesce(held.held_gpu_hours, 0) > 0.04 * capacity.gpus

),

-- No sample covers more than two hours.
quarters as (

    select
        machine_key,
        hour_number,
        begin_seconds,
        {{ each_number(
            'cast(begin_seconds / 900 as bigint) - 8', 'cast(begin_seconds / 900 as bigint) + 4'
        ) }} as quarter
    from excesses

),

pieces as (

    select
        samples.machine_key,
        samples.at_seconds,
        quarters.hour_number,
        least(samples.at_seconds + samples.covers_seconds, quarters.begin_seconds + 3600)
        - greatest(samples.at_seconds, quarters.begin_seconds) as seconds
    from samples
    inner join quarters on samples.machine_key = quarters.machine_key and samples.quarter = quarters.quarter

),

changes as (

    {% for edge, sign in [['held_from', ''], ['held_until', '-']] -%}
        select
            machine_key,
            {{ seconds_of(edge) }} as at_seconds,
            {{ sign }}gpus as held_gpus,
            cast(null as bigint) as hour_number,
            0 as seconds
        from holdings
        where machine_key in (select excesses.machine_key from excesses)

        union all
    {% endfor %}
    select
        machine_key,
        at_seconds,
        0 as held_gpus,
        hour_number,
        seconds
    from pieces
    where seconds > 0

),

levels as (

    select
        machine_key,
        hour_number,
        seconds,
        sum(held_gpus) over (partition by machine_key order by at_seconds) as held_gpus
    from changes

),

means as (

    select
        machine_key,
        hour_number,
        -- Fractions that are added and taken away may leave a little less than nothing.
        greatest(sum(held_gpus * seconds) / sum(seconds), 0) as held_gpus
    from levels
    where hour_number is not null
    group by machine_key, hour_number

),

final as (

    select
        excesses.cluster_id,
        excesses.dt,
        excesses.machine_key,
        excesses.hour_number,
        excesses.in_use_gpu_hours,
        coalesce(means.held_gpus, 0) * excesses.longest_hours as held_when_sampled_gpu_hours
    from excesses
    left join means on excesses.machine_key = means.machine_key and excesses.hour_number = means.hour_number

)

select * from final
