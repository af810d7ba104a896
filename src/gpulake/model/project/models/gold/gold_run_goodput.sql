with runs as (

    select * from {{ ref('silver_training_runs') }}

),

steps as (

    select * from {{ ref('silver_training_steps') }}

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
    from {{ ref('silver_holdings') }}
    where job_key in (select runs.job_key from runs)

),

gaps as (

    select
        job_key,
        until_before as began_at,
        held_from as ended_at,
        {{ seconds_of('held_from') }} - {{ seconds_of('until_before') }} as gap_seconds
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
            {{ seconds_of('max(held.held_until)') }} - {{ seconds_of('min(held.held_from)') }}
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
        {{ earliest([
            'runs.began_at', latest(['jobs.held_from', 'case when jobs.job_key is not null then ordered.ended_before end'])
        ]) }} as began_at,
        {{ latest(['runs.ended_at', 'case when ordered.is_last then jobs.held_until end']) }} as ended_at
    from runs
    left join jobs on runs.job_key = jobs.job_key
    left join ordered on runs.run_key = ordered.run_key

),

without_gpus as (

    select
        windows.run_key,
        sum(
            {{ latest(['0', seconds_of(earliest(['windows.ended_at', 'gaps.ended_at'])) ~ ' - '
                ~ seconds_of(latest(['windows.began_at', 'gaps.began_at']))]) }}
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
        {{ seconds_of('logged.first_at') }} - {{ seconds_of('windows.began_at') }} as first_seconds,
        {{ seconds_of('windows.ended_at') }} - {{ seconds_of('logged.last_at') }} as ending_seconds
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
        + {{ earliest(['usual_row_seconds', 'first_seconds']) }} as productive_seconds,
        {{ latest(['0', 'first_seconds - usual_row_seconds']) }} as startup_seconds,
        {{ latest(['0', 'restart_seconds - released_seconds']) }} as restart_seconds
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
        {{ latest(['0', 'part_seconds']) }} as seconds,
        {{ latest(['0', 'part_seconds']) }} / nullif(sum(part_seconds) over (partition by run_key), 0) as time_ratio,
        gpus * {{ latest(['0', 'part_seconds']) }} / 3600 as gpu_hours
    from divided

)

select * from final
