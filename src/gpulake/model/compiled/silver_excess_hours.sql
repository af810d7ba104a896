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
    from "lake"."main"."silver_gpu_hours"
    group by cluster_id, dt, machine_key, hour_number

),

held as (

    select
        machine_key,
        hour_number,
        idle_gpu_hours + under_used_gpu_hours + failed_gpu_hours + timed_out_gpu_hours + interrupted_gpu_hours + unobserved_gpu_hours + used_gpu_hours as held_gpu_hours
    from "lake"."main"."silver_held_hours"

),

capacity as (

    select * from "lake"."main"."silver_capacity"

),

samples as not materialized (

    select
        *,
        (epoch_us(sampled_at) / 1e6) as at_seconds,
        cast(floor((epoch_us(sampled_at) / 1e6) / 900) as bigint) as quarter
    from "lake"."main"."silver_gpu_samples"
    where covers_seconds > 0

),

holdings as (

    select * from "lake"."main"."silver_holdings"
    where held_seconds > 0

),

-- Less is not counted by gold_machine_hours.
excesses as (

    select
        seen.*,
        (epoch_us(seen.started_at) / 1e6) as begin_seconds
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
        unnest(range(cast(begin_seconds / 900 as bigint) - 8, cast(begin_seconds / 900 as bigint) + 4)) as quarter
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

    select
            machine_key,
            (epoch_us(held_from) / 1e6) as at_seconds,
            gpus as held_gpus,
            cast(null as bigint) as hour_number,
            0 as seconds
        from holdings
        where machine_key in (select excesses.machine_key from excesses)

        union all
    select
            machine_key,
            (epoch_us(held_until) / 1e6) as at_seconds,
            -gpus as held_gpus,
            cast(null as bigint) as hour_number,
            0 as seconds
        from holdings
        where machine_key in (select excesses.machine_key from excesses)

        union all
    
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

-- test: a_machine_has_an_excess_once_an_hour() error
select machine_key, hour_number
from "lake"."main"."silver_excess_hours"
group by machine_key, hour_number
having count(*) > 1

-- test: in_range_silver_excess_hours_0__held_when_sampled_gpu_hours(held_when_sampled_gpu_hours) error
where false
    or held_when_sampled_gpu_hours < 0

-- test: not_null_silver_excess_hours_cluster_id(cluster_id) error
where cluster_id is null

-- test: not_null_silver_excess_hours_dt(dt) error
where dt is null

-- test: not_null_silver_excess_hours_held_when_sampled_gpu_hours(held_when_sampled_gpu_hours) error
where held_when_sampled_gpu_hours is null

-- test: not_null_silver_excess_hours_hour_number(hour_number) error
where hour_number is null

-- test: not_null_silver_excess_hours_in_use_gpu_hours(in_use_gpu_hours) error
where in_use_gpu_hours is null

-- test: not_null_silver_excess_hours_machine_key(machine_key) error
where machine_key is null
