-- Machines that lost all they ran at one moment and then stayed silent against the odds, as docs/ledger.md defines it.
-- Those that lost it at the same moment are judged together.






with holdings as not materialized (

    select * from "lake"."main"."silver_holdings"

),

clusters as (

    select * from "lake"."main"."silver_clusters"

),

-- A number for the type of a machine within its cluster: fewer and shorter columns to group by.
watched as (

    select
        *,
        dense_rank() over (order by cluster_id, gpu_type) as type_number
    from __dbt__cte__watched_machines

),

begins as not materialized (

    select
        watched.type_number,
        holdings.machine_key,
        holdings.job_key,
        holdings.held_from
    from holdings
    inner join watched on holdings.machine_key = watched.machine_key
    where holdings.start_basis in ('recorded', 'metric')

),

-- What is inferred is no sign of life. What was interrupted went with its gang.
signs as not materialized (

    select
        machine_key,
        held_until as happened_at,
        case when status in ('failed', 'node_fail') then 1 else 0 end as lost,
        case when status in ('failed', 'node_fail') or status = 'interrupted' then 0 else 1 end as others
    from holdings
    where end_basis = 'recorded' and machine_key in (select watched.machine_key from watched)

    union all

    select
        machine_key,
        held_from as happened_at,
        0 as lost,
        0 as others
    from begins

),

-- Only the last sign of an hour can be followed by hours of silence: few moments are left to look at.
sign_hours as (

    select
        machine_key,
        cast(floor(((epoch_us(happened_at) / 1e6) + 0) / 3600) as bigint) as hour_number,
        min(happened_at) as first_at,
        max(happened_at) as last_at
    from signs
    group by all

),

followed as (

    select
        machine_key,
        last_at as happened_at,
        lead(first_at) over (partition by machine_key order by hour_number) as next_sign_at
    from sign_hours

),

quiet as (

    select * from followed
    where next_sign_at is null or next_sign_at >= happened_at + to_seconds(10800)

),

moments as (

    select
        quiet.machine_key,
        quiet.happened_at,
        quiet.next_sign_at,
        sum(signs.lost) as lost,
        sum(signs.others) as others
    from signs
    inner join quiet on signs.machine_key = quiet.machine_key and signs.happened_at = quiet.happened_at
    group by all

),

-- A job comes to machines of a type once.
arrivals as (

    select
        type_number,
        job_key,
        min(held_from) as began_at
    from begins
    group by type_number, job_key

),

totals as (

    select
        type_number,
        count(*) as jobs
    from arrivals
    group by type_number

),

silences as (

    select
        watched.cluster_id,
        watched.type_number,
        moments.machine_key,
        moments.happened_at,
        moments.lost,
        moments.happened_at + to_seconds(10800) as judged_from,
        coalesce(
            moments.next_sign_at, greatest(clusters.observed_until, moments.happened_at)
        ) as silent_until
    from moments
    inner join watched on moments.machine_key = watched.machine_key
    inner join clusters on watched.cluster_id = clusters.cluster_id
    where moments.lost > 0 and moments.others = 0 and not watched.is_recorded

),

long_silences as (

    select
        *,
        sum(lost) over (partition by cluster_id, happened_at) as lost_at_once
    from silences
    where silent_until >= judged_from

),

own as (

    select
        machine_key,
        count(distinct job_key) as jobs
    from begins
    where machine_key in (select long_silences.machine_key from long_silences)
    group by machine_key

),

as_large as (

    select
        cluster_id,
        lost_at_once,
        sum(count(distinct happened_at)) over (partition by cluster_id order by lost_at_once desc) as moments
    from long_silences
    group by cluster_id, lost_at_once

),

-- How many jobs had come by when: those of the very moment are before the begin of a silence, and after its end.
timeline as (

    select
        type_number,
        began_at as happens_at,
        1 as place,
        1 as jobs,
        cast(null as bigint) as machine_key,
        cast(null as timestamptz) as silent_since
    from arrivals

    union all

    select
        type_number,
        judged_from as happens_at,
        2 as place,
        0 as jobs,
        machine_key,
        happened_at as silent_since
    from long_silences

    union all

    select
        type_number,
        silent_until as happens_at,
        0 as place,
        0 as jobs,
        machine_key,
        happened_at as silent_since
    from long_silences

),

counted as (

    select
        place,
        machine_key,
        silent_since,
        sum(jobs) over (
            partition by type_number order by happens_at, place
            rows between unbounded preceding and current row
        ) as jobs
    from timeline

),

came as (

    select
        machine_key,
        silent_since,
        greatest(max(case when place = 0 then jobs end) - max(case when place = 2 then jobs end), 0) as jobs
    from counted
    where place != 1
    group by machine_key, silent_since

),

judged as (

    select
        long_silences.*,
        least(
            coalesce(-ln(1 - least(own.jobs / cast(totals.jobs as double), 0.5)) * came.jobs, 0), 5
        ) as surprise
    from long_silences
    inner join came
        on long_silences.machine_key = came.machine_key and long_silences.happened_at = came.silent_since
    left join own on long_silences.machine_key = own.machine_key
    left join totals on long_silences.type_number = totals.type_number

),

together as (

    select
        *,
        sum(surprise) over (partition by cluster_id, happened_at) as surprise_at_once
    from judged

)

select
    together.cluster_id,
    together.machine_key,
    together.happened_at as started_at,
    together.silent_until as ended_at
from together
inner join as_large on together.cluster_id = as_large.cluster_id and together.lost_at_once = as_large.lost_at_once
where
    together.lost_at_once >= 2
    and as_large.moments * exp(-together.surprise_at_once) <= 0.2
