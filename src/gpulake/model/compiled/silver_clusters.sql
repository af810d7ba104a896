-- Times are instants; the days and hours of a cluster are those of its own time zone. What is under observation is
-- settled here: see docs/ledger.md.



-- Not materialized: of many rows each event has one column.
with jobs as not materialized (

    select * from "lake"."main"."silver_jobs"

),

instances as not materialized (

    select * from "lake"."main"."silver_instances"

),

windows as not materialized (

    select * from "lake"."main"."silver_gpu_timeseries"

),

-- A snapshot of a node is an event: what still runs then has run until then.
reports as (

    select * from __dbt__cte__kubernetes_node_states

),

known as (

    select * from "landed"."main"."known_clusters"

),

-- Hours that begin later have not come yet: none where it is not known when the files landed.
bounds as (

    select cast(floor(((epoch_us(max(credible_until)) / 1e6) + 0) / 3600) as bigint) as last_hour
    from "landed"."main"."parameters"

),

recorded as (

    select distinct cluster_id from jobs
    union
    select distinct cluster_id from instances
    union
    select distinct cluster_id from windows
    union
    select distinct cluster_id from reports
    union
    select distinct cluster_id from __dbt__cte__slurm_snapshots

),

-- Samples are the events of a cluster of which no records of jobs have landed: of one that has some, they may begin
-- long before these, or end long after them.
sampled as (

    select
        cluster_id,
        first_at as seen_from,
        last_at as seen_until
    from "lake"."main"."silver_gpu_hours"
    where cluster_id not in (select recorded.cluster_id from recorded)

),

-- Numbers of hours: all events of a large trace are many, its hours are few.
counted as (

    
        select
            cluster_id,
            cast(floor(((epoch_us(submitted_at) / 1e6) + 0) / 3600) as bigint) as hour_number,
            count(*) as events,
            min(submitted_at) as first_at,
            max(submitted_at) as last_at
        from jobs
        where submitted_at is not null
        group by cluster_id, hour_number
        union all
    
        select
            cluster_id,
            cast(floor(((epoch_us(ended_at) / 1e6) + 0) / 3600) as bigint) as hour_number,
            count(*) as events,
            min(ended_at) as first_at,
            max(ended_at) as last_at
        from jobs
        where ended_at is not null
        group by cluster_id, hour_number
        union all
    
        select
            cluster_id,
            cast(floor(((epoch_us(started_at) / 1e6) + 0) / 3600) as bigint) as hour_number,
            count(*) as events,
            min(started_at) as first_at,
            max(started_at) as last_at
        from instances
        where started_at is not null
        group by cluster_id, hour_number
        union all
    
        select
            cluster_id,
            cast(floor(((epoch_us(ended_at) / 1e6) + 0) / 3600) as bigint) as hour_number,
            count(*) as events,
            min(ended_at) as first_at,
            max(ended_at) as last_at
        from instances
        where ended_at is not null
        group by cluster_id, hour_number
        union all
    
        select
            cluster_id,
            cast(floor(((epoch_us(window_started_at) / 1e6) + 0) / 3600) as bigint) as hour_number,
            count(*) as events,
            min(window_started_at) as first_at,
            max(window_started_at) as last_at
        from windows
        where window_started_at is not null
        group by cluster_id, hour_number
        union all
    
        select
            cluster_id,
            cast(floor(((epoch_us(window_ended_at) / 1e6) + 0) / 3600) as bigint) as hour_number,
            count(*) as events,
            min(window_ended_at) as first_at,
            max(window_ended_at) as last_at
        from windows
        where window_ended_at is not null
        group by cluster_id, hour_number
        union all
    
        select
            cluster_id,
            cast(floor(((epoch_us(asked_at) / 1e6) + 0) / 3600) as bigint) as hour_number,
            count(*) as events,
            min(asked_at) as first_at,
            max(asked_at) as last_at
        from reports
        where asked_at is not null
        group by cluster_id, hour_number
        union all
    
        select
            cluster_id,
            cast(floor(((epoch_us(seen_from) / 1e6) + 0) / 3600) as bigint) as hour_number,
            count(*) as events,
            min(seen_from) as first_at,
            max(seen_from) as last_at
        from sampled
        where seen_from is not null
        group by cluster_id, hour_number
        union all
    
        select
            cluster_id,
            cast(floor(((epoch_us(seen_until) / 1e6) + 0) / 3600) as bigint) as hour_number,
            count(*) as events,
            min(seen_until) as first_at,
            max(seen_until) as last_at
        from sampled
        where seen_until is not null
        group by cluster_id, hour_number
        
    

),

event_hours as (

    select
        cluster_id,
        hour_number,
        sum(events) as events,
        min(first_at) as first_at,
        max(last_at) as last_at
    from counted
    group by cluster_id, hour_number

),

shares as (

    select
        event_hours.cluster_id,
        max(event_hours.last_at) as last_at,
        coalesce(
            2 * sum(case when event_hours.hour_number > bounds.last_hour then event_hours.events else 0 end)
            <= sum(event_hours.events),
            false
        ) as is_bounded
    from event_hours
    cross join bounds
    group by event_hours.cluster_id

),

-- A clock that is ahead in most events is that of the files, not a wrong one.
credible as (

    select
        event_hours.*,
        shares.last_at as cluster_last_at
    from event_hours
    inner join shares on event_hours.cluster_id = shares.cluster_id
    cross join bounds
    where not shares.is_bounded or bounds.last_hour is null or event_hours.hour_number <= bounds.last_hour

),

ranked as (

    select
        *,
        sum(events) over by_hour - events as events_before,
        sum(events) over by_hour as events_until,
        sum(events) over (partition by cluster_id) as all_events,
        min(hour_number) over (partition by cluster_id) as first_hour
    from credible
    window by_hour as (partition by cluster_id order by hour_number rows between unbounded preceding and current row)

),

-- Between the first and the last twentieth of the events.
cores as (

    select
        cluster_id,
        min(case when events_until * 20 >= all_events * 19 then hour_number end) as last_hour,
        greatest(
            min(case when events_until * 20 >= all_events * 19 then hour_number end)
            - min(case when events_until * 20 >= all_events then hour_number end),
            24
        ) as hours
    from ranked
    group by cluster_id

),

-- To leave out a hundredth of the events must save a tenth of the core.
weighed as (

    select
        ranked.*,
        case
            when ranked.events_before * 20 <= ranked.all_events
                then
                    (ranked.hour_number - ranked.first_hour) / cast(cores.hours as double)
                    - 10 * ranked.events_before / cast(ranked.all_events as double)
        end as gain,
        ranked.hour_number <= cores.last_hour + greatest(cores.hours, 168) as is_believed
    from ranked
    inner join cores on ranked.cluster_id = cores.cluster_id

),

placed as (

    select
        *,
        row_number() over (partition by cluster_id order by gain desc nulls last, hour_number asc) as place
    from weighed

),

spans as (

    select
        cluster_id,
        min(first_at) as first_at,
        max(cluster_last_at) as last_at,
        min(case when place = 1 then first_at end) as begins_at,
        max(case when is_believed then last_at end) as ends_at
    from placed
    group by cluster_id

),

-- A pull asks for the accounting of a time completely, and for the nodes at its end.
pulled as (

    select
        cluster_id,
        min(pulled_from) as first_at,
        max(asked_at) as last_at
    from __dbt__cte__slurm_snapshots
    where pulled_from is not null
    group by cluster_id

),

-- What had ended before was landed by hand.
pulled_only as (

    select
        pulled.cluster_id,
        pulled.first_at
    from pulled
    left join jobs on pulled.cluster_id = jobs.cluster_id and pulled.first_at > jobs.ended_at
    group by pulled.cluster_id, pulled.first_at
    having count(jobs.job_key) = 0

),

demands as (

    select
        cluster_id,
        avg(case when gpus is null then 1 else 0 end) as unknown_demand_ratio
    from instances
    where status != 'waiting'
    group by cluster_id

),

zoned as (

    select
        spans.cluster_id,
        coalesce(known.time_zone, 'UTC') as time_zone,
        coalesce(known.observed_from, pulled_only.first_at, spans.begins_at) as observed_from,
        greatest(coalesce(known.observed_until, greatest(spans.ends_at, pulled.last_at)), coalesce(known.observed_from, pulled_only.first_at, spans.begins_at)) as observed_until,
        case
            when coalesce(known.observed_from, known.observed_until) is not null then 'settings'
            when pulled.last_at is not null then 'pulled'
            when spans.begins_at > spans.first_at or spans.ends_at < spans.last_at then 'trimmed'
            else 'events'
        end as observed_basis,
        spans.cluster_id in (select recorded.cluster_id from recorded) as has_jobs,
        coalesce(demands.unknown_demand_ratio, 0) as unknown_demand_ratio
    from spans
    left join known on spans.cluster_id = known.cluster_id
    left join pulled on spans.cluster_id = pulled.cluster_id
    left join pulled_only on spans.cluster_id = pulled_only.cluster_id
    left join demands on spans.cluster_id = demands.cluster_id

),

final as (

    select
        *,
        cast(epoch(timezone(time_zone, observed_from)) - epoch(observed_from) + 86400 as bigint) % 3600 as hour_shift_seconds,
        cluster_id = 'synth' or starts_with(cluster_id, 'synth-') as is_generated
    from zoned

)

select * from final

-- test: a_cluster_is_observed_for_some_time() warn
where not (observed_until > observed_from)

-- test: accepted_values_silver_clusters_observed_basis__settings__pulled__events__trimmed(observed_basis) error
where observed_basis not in ('settings', 'pulled', 'events', 'trimmed')

-- test: in_range_silver_clusters_0__1__unknown_demand_ratio(unknown_demand_ratio) error
where false
    or unknown_demand_ratio < 0
    or unknown_demand_ratio > 1

-- test: in_range_silver_clusters_0__3599__hour_shift_seconds(hour_shift_seconds) error
where false
    or hour_shift_seconds < 0
    or hour_shift_seconds > 3599

-- test: not_null_silver_clusters_cluster_id(cluster_id) error
where cluster_id is null

-- test: not_null_silver_clusters_has_jobs(has_jobs) error
where has_jobs is null

-- test: not_null_silver_clusters_hour_shift_seconds(hour_shift_seconds) error
where hour_shift_seconds is null

-- test: not_null_silver_clusters_is_generated(is_generated) error
where is_generated is null

-- test: not_null_silver_clusters_observed_basis(observed_basis) error
where observed_basis is null

-- test: not_null_silver_clusters_observed_from(observed_from) error
where observed_from is null

-- test: not_null_silver_clusters_observed_until(observed_until) error
where observed_until is null

-- test: not_null_silver_clusters_time_zone(time_zone) error
where time_zone is null

-- test: not_null_silver_clusters_unknown_demand_ratio(unknown_demand_ratio) error
where unknown_demand_ratio is null

-- test: unique_silver_clusters_cluster_id(cluster_id) error
select
    cluster_id as unique_field,
    count(*) as n_records

from "lake"."main"."silver_clusters"
where cluster_id is not null
group by cluster_id
having count(*) > 1
