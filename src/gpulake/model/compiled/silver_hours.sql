-- Hours begin with the local hour; a number counts them, so that an interval can be cut into hours without a search.

with clusters as (

    select * from "lake"."main"."silver_clusters"

),

numbered as (

    select
        *,
        unnest(range(cast(floor(((epoch_us(observed_from) / 1e6) + hour_shift_seconds) / 3600) as bigint), cast(floor(((epoch_us(observed_until) / 1e6) + hour_shift_seconds) / 3600) as bigint) + 1)) as hour_number
    from clusters

),

hours as (

    select
        *,
        to_timestamp(hour_number * 3600 - hour_shift_seconds) as started_at,
        to_timestamp(hour_number * 3600 + 3600 - hour_shift_seconds) as ended_at
    from numbered

),

final as (

    select
        cluster_id,
        hour_number,
        started_at,
        ended_at,
        cast(timezone(time_zone, started_at) as date) as dt,
        cast(cast(timezone(time_zone, started_at) as date) - date '1970-01-01' as bigint) as day_number,
        greatest(started_at, observed_from) as observed_from,
        least(ended_at, observed_until) as observed_until,
        (epoch_us(least(ended_at, observed_until)) / 1e6)
        - (epoch_us(greatest(started_at, observed_from)) / 1e6) as observed_seconds
    from hours

)

select * from final

-- test: a_cluster_has_an_hour_once() error
select cluster_id, hour_number
from "lake"."main"."silver_hours"
group by cluster_id, hour_number
having count(*) > 1

-- test: in_range_silver_hours_0__3600__observed_seconds(observed_seconds) error
where false
    or observed_seconds < 0
    or observed_seconds > 3600

-- test: not_null_silver_hours_cluster_id(cluster_id) error
where cluster_id is null

-- test: not_null_silver_hours_day_number(day_number) error
where day_number is null

-- test: not_null_silver_hours_dt(dt) error
where dt is null

-- test: not_null_silver_hours_ended_at(ended_at) error
where ended_at is null

-- test: not_null_silver_hours_hour_number(hour_number) error
where hour_number is null

-- test: not_null_silver_hours_observed_from(observed_from) error
where observed_from is null

-- test: not_null_silver_hours_observed_seconds(observed_seconds) error
where observed_seconds is null

-- test: not_null_silver_hours_observed_until(observed_until) error
where observed_until is null

-- test: not_null_silver_hours_started_at(started_at) error
where started_at is null
