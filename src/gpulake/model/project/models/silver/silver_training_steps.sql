with logged as (

    select * from {{ ref('training_rows') }}

),

runs as (

    select * from {{ ref('silver_training_runs') }}

),

checkpoints as (

    select
        {{ job_key("coalesce(lower(cluster), 'slurm')", 'job') }} as job_key,
        saved_at
    from {{ source('landed', 'bronze_checkpoints') }}

),

metrics as (

    select
        run_key,
        metric,
        coalesce(kind, '') as kind,
        count(distinct step) as steps
    from logged
    where step is not null
    group by run_key, metric, coalesce(kind, '')

),

-- Steps are those of one metric, the one that was logged at the most; the loss, unless another has twice as many.
-- Metrics that are logged apart have times of their own, and in MLPerf even counters of their own.
ranked as (

    select
        *,
        row_number() over (
            partition by run_key
            order by
                case when kind = 'evaluation' then 1 else 0 end asc,
                steps * case when kind = 'loss' then 2 else 1 end desc,
                metric asc
        ) = 1 as is_progress,
        row_number() over (partition by run_key, kind order by steps desc, metric asc) = 1 as is_first
    from metrics

),

-- A step that the same metric logs again, later, was done again: the run was restarted from a checkpoint.
marked as (

    select
        logged.*,
        ranked.is_progress,
        case when ranked.is_first then ranked.kind end as value_kind,
        case
            when
                ranked.is_progress
                and logged.logged_at is not null
                and logged.step
                <= lag(logged.step) over (
                    partition by logged.run_key, logged.metric order by logged.logged_at, logged.step
                )
                then 1
            else 0
        end as is_again
    from logged
    inner join ranked on logged.run_key = ranked.run_key and logged.metric = ranked.metric
    where logged.step is not null

),

numbered as (

    select
        *,
        sum(is_again) over (
            partition by run_key
            order by logged_at asc nulls last, is_progress desc, step asc
            rows between unbounded preceding and current row
        ) as restarts,
        -- Metrics of an evaluation, up to this moment.
        count(case when kind = 'evaluation' and not is_progress and logged_at is not null then 1 end) over (
            partition by run_key order by logged_at asc nulls last
        ) as evaluations
    from marked

),

stepped as (

    select
        run_key,
        cast(restarts as bigint) as restarts,
        step,
        min(case when is_progress then logged_at end) as logged_at,
        max(case when value_kind = 'epoch' then value end) as epoch,
        max(case when value_kind = 'loss' then value end) as loss,
        max(case when value_kind = 'learning_rate' then value end) as learning_rate,
        max(case when value_kind = 'grad_norm' then value end) as grad_norm,
        max(case when value_kind = 'samples_per_second' then value end) as samples_per_second,
        max(case when value_kind = 'tokens_per_second' then value end) as tokens_per_second,
        max(case when value_kind = 'checkpoint_seconds' then value end) as checkpoint_seconds,
        max(case when is_progress then evaluations end) as evaluations
    from numbered
    group by run_key, restarts, step
    having count(case when is_progress then 1 end) > 0

),

timed as (

    select
        *,
        lag(logged_at) over in_order as last_at,
        lag(step) over in_order as last_step,
        restarts > lag(restarts) over in_order as is_restart,
        evaluations > lag(evaluations) over in_order as has_evaluation,
        max(step) over (
            partition by run_key
            order by restarts, step
            rows between unbounded preceding and 1 preceding
        ) as furthest_step
    from stepped
    window in_order as (partition by run_key order by restarts, step)

),

saved as (

    select distinct
        timed.run_key,
        timed.restarts,
        timed.step
    from timed
    inner join runs on timed.run_key = runs.run_key
    inner join checkpoints
        on
            runs.job_key = checkpoints.job_key
            and timed.last_at < checkpoints.saved_at
            and timed.logged_at >= checkpoints.saved_at

),

took as (

    select
        timed.*,
        runs.job_key,
        saved.run_key is not null as has_checkpoint,
        {{ seconds_of('timed.logged_at') }} - {{ seconds_of('timed.last_at') }} as took_seconds,
        case when not timed.is_restart then timed.step - timed.last_step end as steps_done
    from timed
    inner join runs on timed.run_key = runs.run_key
    left join saved
        on timed.run_key = saved.run_key and timed.restarts = saved.restarts and timed.step = saved.step

),

usual as (

    select
        run_key,
        {{ median('took_seconds / steps_done') }} as step_seconds,
        {{ median('took_seconds') }} as row_seconds
    from took
    where steps_done > 0
    group by run_key

),

-- What a row should have taken, and what was logged as the time of a checkpoint in it.
expected as (

    select
        took.*,
        usual.step_seconds as usual_step_seconds,
        usual.row_seconds as usual_row_seconds,
        coalesce(took.steps_done * usual.step_seconds, usual.row_seconds) as usual_seconds,
        case
            when took.is_restart then 0
            else
                {{ earliest([
                    'took.took_seconds', latest(['0', 'coalesce(' ~ finite('took.checkpoint_seconds') ~ ', 0)'])
                ]) }}
        end as measured_seconds
    from took
    left join usual on took.run_key = usual.run_key

),

worked as (

    select
        *,
        took_seconds - measured_seconds as rest_seconds,
        case
            when
                is_restart or has_checkpoint or has_evaluation
                or took_seconds - measured_seconds > {{ stall_factor() }} * usual_seconds
                then {{ earliest(['took_seconds - measured_seconds', 'usual_seconds']) }}
            else took_seconds - measured_seconds
        end as work_seconds
    from expected

),

final as (

    select
        run_key,
        job_key,
        restarts,
        step,
        logged_at,
        epoch,
        loss,
        learning_rate,
        grad_norm,
        samples_per_second,
        tokens_per_second,
        took_seconds,
        usual_step_seconds,
        usual_row_seconds,
        case
            when is_restart then work_seconds
            when furthest_step > last_step
                then work_seconds * ({{ earliest(['furthest_step', 'step']) }} - last_step) / steps_done
            when took_seconds is not null then 0
        end as repeated_seconds,
        case when took_seconds is not null then case when is_restart then rest_seconds - work_seconds else 0 end end
            as restart_seconds,
        case
            when took_seconds is not null
                then
                    measured_seconds
                    + case when has_checkpoint and not is_restart then rest_seconds - work_seconds else 0 end
        end as checkpoint_seconds,
        case
            when took_seconds is not null
                then
                    case
                        when has_evaluation and not has_checkpoint and not is_restart then rest_seconds - work_seconds
                        else 0
                    end
        end as evaluation_seconds,
        case
            when took_seconds is not null
                then
                    case
                        when not (is_restart or has_checkpoint or has_evaluation) then rest_seconds - work_seconds
                        else 0
                    end
        end as stall_seconds
    from worked

)

select * from final
