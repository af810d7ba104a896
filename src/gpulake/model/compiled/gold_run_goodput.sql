with runs as (

    select * from "lake"."main"."silver_training_runs"

),

steps as (

    select * from "lake"."main"."silver_training_steps"

),

-- Attempts of a job: between them it held nothing.
held as (

    select
        job_key,
        held_from,
        held_until,
        gpus * held_seconds as gpu_seconds,
        max(held_until) over (
            partition by job_key
            order by held_from, held_until
            rows between unbounded preceding and 1 preceding
        ) as until_before
    from "lake"."main"."silver_holdings"
    where job_key in (select runs.job_key from runs)

),

gaps as (

    select
        job_key,
        until_before as began_at,
        held_from as ended_at,
        (epoch_us(held_from) / 1e6) - (epoch_us(until_before) / 1e6) as gap_seconds
    from held
    where held_from > until_before

),

released as (

    select
        job_key,
        sum(gap_seconds) as released_seconds
    from gaps
    group by job_key

),

jobs as (

    select
        held.job_key,
        min(held.held_from) as held_from,
        max(held.held_until) as held_until,
        sum(held.gpu_seconds) / nullif(
            (epoch_us(max(held.held_until)) / 1e6) - (epoch_us(min(held.held_from)) / 1e6)
            - coalesce(max(released.released_seconds), 0), 0
        ) as gpus
    from held
    left join released on held.job_key = released.job_key
    group by held.job_key

),

logged as (

    select
        run_key,
        min(logged_at) as first_at,
        max(logged_at) as last_at,
        coalesce(max(usual_row_seconds), 0) as usual_row_seconds,
        sum(took_seconds) as took_seconds,
        sum(repeated_seconds) as repeated_seconds,
        sum(restart_seconds) as restart_seconds,
        sum(checkpoint_seconds) as checkpoint_seconds,
        sum(evaluation_seconds) as evaluation_seconds,
        sum(stall_seconds) as stall_seconds
    from steps
    where logged_at is not null
    group by run_key
    having count(*) > 1

),

-- A job may train several runs: each begins where the one before it ended. Exports of two tools may be of one run.
ordered as (

    select
        run_key,
        max(ended_at) over (
            partition by source, job_key
            order by began_at, run_key
            rows between unbounded preceding and 1 preceding
        ) as ended_before,
        lead(run_key) over (partition by source, job_key order by began_at, run_key) is null as is_last
    from runs
    where job_key is not null

),

windows as (

    select
        runs.run_key,
        runs.source,
        runs.run_id,
        runs.cluster_id,
        runs.job_key,
        runs.job_id,
        jobs.gpus,
        least(runs.began_at, greatest(jobs.held_from, case when jobs.job_key is not null then ordered.ended_before end)) as began_at,
        greatest(runs.ended_at, case when ordered.is_last then jobs.held_until end) as ended_at
    from runs
    left join jobs on runs.job_key = jobs.job_key
    left join ordered on runs.run_key = ordered.run_key

),

without_gpus as (

    select
        windows.run_key,
        sum(
            greatest(0, (epoch_us(least(windows.ended_at, gaps.ended_at)) / 1e6) - (epoch_us(greatest(windows.began_at, gaps.began_at)) / 1e6))
        ) as released_seconds
    from windows
    inner join gaps on windows.job_key = gaps.job_key
    group by windows.run_key

),

timed as (

    select
        windows.*,
        logged.usual_row_seconds,
        logged.took_seconds,
        logged.repeated_seconds,
        logged.restart_seconds,
        logged.checkpoint_seconds,
        logged.evaluation_seconds,
        logged.stall_seconds,
        coalesce(without_gpus.released_seconds, 0) as released_seconds,
        (epoch_us(logged.first_at) / 1e6) - (epoch_us(windows.began_at) / 1e6) as first_seconds,
        (epoch_us(windows.ended_at) / 1e6) - (epoch_us(logged.last_at) / 1e6) as ending_seconds
    from windows
    inner join logged on windows.run_key = logged.run_key
    left join without_gpus on windows.run_key = without_gpus.run_key

),

-- Before the first row, and before the first after a restart, a usual row's time is work. While the job waited between
-- two attempts it held nothing.
spent as (

    select
        * exclude (restart_seconds),
        took_seconds - repeated_seconds - restart_seconds - checkpoint_seconds - evaluation_seconds - stall_seconds
        + least(usual_row_seconds, first_seconds) as productive_seconds,
        greatest(0, first_seconds - usual_row_seconds) as startup_seconds,
        greatest(0, restart_seconds - released_seconds) as restart_seconds
    from timed

),

divided as (

    select
        spent.*,
        parts.part,
        case parts.part
            when 'productive' then spent.productive_seconds
            when 'startup' then spent.startup_seconds
            when 'repeated' then spent.repeated_seconds
            when 'restart' then spent.restart_seconds
            when 'checkpoint' then spent.checkpoint_seconds
            when 'evaluation' then spent.evaluation_seconds
            when 'stall' then spent.stall_seconds
            else spent.ending_seconds
        end as part_seconds
    from spent
    cross join (
        values
        ('productive'), ('startup'), ('repeated'), ('restart'), ('checkpoint'), ('evaluation'), ('stall'), ('ending')
    ) as parts (part)

),

-- Of a difference of sums, what is slightly below zero is none.
final as (

    select
        run_key,
        part,
        source,
        run_id,
        cluster_id,
        job_key,
        job_id,
        began_at,
        ended_at,
        gpus,
        greatest(0, part_seconds) as seconds,
        greatest(0, part_seconds) / nullif(sum(part_seconds) over (partition by run_key), 0) as time_ratio,
        gpus * greatest(0, part_seconds) / 3600 as gpu_hours
    from divided

)

select * from final

-- test: a_part_of_a_run_is_told_once() error
select run_key, part
from "lake"."main"."gold_run_goodput"
group by run_key, part
having count(*) > 1

-- test: accepted_values_gold_run_goodput_part__productive__startup__repeated__restart__checkpoint__evaluation__stall__ending(part) error
where part not in ('productive', 'startup', 'repeated', 'restart', 'checkpoint', 'evaluation', 'stall', 'ending')

-- test: in_range_gold_run_goodput_0__1_000001__time_ratio(time_ratio) error
where false
    or time_ratio < 0
    or time_ratio > 1.000001

-- test: in_range_gold_run_goodput_0__gpu_hours(gpu_hours) error
where false
    or gpu_hours < 0

-- test: in_range_gold_run_goodput_0__gpus(gpus) error
where false
    or gpus < 0

-- test: in_range_gold_run_goodput_0__seconds(seconds) error
where false
    or seconds < 0

-- test: not_null_gold_run_goodput_began_at(began_at) error
where began_at is null

-- test: not_null_gold_run_goodput_ended_at(ended_at) error
where ended_at is null

-- test: not_null_gold_run_goodput_part(part) error
where part is null

-- test: not_null_gold_run_goodput_run_id(run_id) error
where run_id is null

-- test: not_null_gold_run_goodput_run_key(run_key) error
where run_key is null

-- test: not_null_gold_run_goodput_seconds(seconds) error
where seconds is null

-- test: not_null_gold_run_goodput_source(source) error
where source is null
