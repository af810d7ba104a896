with clusters as (

    select * from "lake"."main"."silver_clusters"

),

days as (

    select
        *,
        cast(unnest(generate_series(cast(timezone(time_zone, observed_from) as date), cast(timezone(time_zone, observed_until) as date), interval 1 day)) as date) as dt
    from clusters

),

bounded as (

    select
        *,
        timezone(time_zone, cast(dt as timestamp)) as started_at,
        timezone(time_zone, cast(cast(dt + 1 as date) as timestamp)) as ended_at
    from days

),

final as (

    select
        cluster_id,
        dt,
        cast(dt - date '1970-01-01' as bigint) as day_number,
        started_at,
        ended_at,
        greatest(started_at, observed_from) as observed_from,
        least(ended_at, observed_until) as observed_until,
        (epoch_us(least(ended_at, observed_until)) / 1e6)
        - (epoch_us(greatest(started_at, observed_from)) / 1e6) as observed_seconds
    from bounded

)

select * from final

-- test: a_cluster_has_a_day_once() error
select cluster_id, dt
from "lake"."main"."silver_days"
group by cluster_id, dt
having count(*) > 1

-- test: a_day_lasts_23_to_25_hours() error
where not (epoch(ended_at) - epoch(started_at) between 23 * 3600 and 25 * 3600)

-- test: in_range_silver_days_0__observed_seconds(observed_seconds) error
where false
    or observed_seconds < 0

-- test: not_null_silver_days_cluster_id(cluster_id) error
where cluster_id is null

-- test: not_null_silver_days_day_number(day_number) error
where day_number is null

-- test: not_null_silver_days_dt(dt) error
where dt is null

-- test: not_null_silver_days_ended_at(ended_at) error
where ended_at is null

-- test: not_null_silver_days_observed_from(observed_from) error
where observed_from is null

-- test: not_null_silver_days_observed_seconds(observed_seconds) error
where observed_seconds is null

-- test: not_null_silver_days_observed_until(observed_until) error
where observed_until is null

-- test: not_null_silver_days_started_at(started_at) error
where started_at is null
