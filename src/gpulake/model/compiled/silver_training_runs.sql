with logged as (

    select * from __dbt__cte__training_rows

),

jobs as (

    select * from "lake"."main"."silver_jobs"

),

holdings as (

    select * from "lake"."main"."silver_holdings"

),

machines as (

    select * from "lake"."main"."silver_machines"

),

-- W&B counts the seconds since its process began.
runs as (

    select
        run_key,
        source,
        run_id,
        max(job_id) as named_job_id,
        max(node_id) as node_id,
        min(
            case
                when kind = 'runtime_seconds' and value between 0 and 1e9 then logged_at + to_seconds(-value)
                else logged_at
            end
        ) as began_at,
        max(logged_at) as ended_at,
        min(step) as first_step,
        max(step) as last_step,
        count(distinct step) as steps
    from logged
    group by run_key, source, run_id

),

-- A process in a task of an array, or in a part of a heterogeneous job, knows its raw number only.
names as (

    select
        job_key,
        job_id as name
    from jobs

    union

    select
        job_key,
        owner_id as name
    from __dbt__cte__owner_jobs
    where owner_kind = 'slurm'

),

named as (

    select
        runs.run_key,
        jobs.job_key
    from runs
    inner join names on runs.named_job_id = names.name
    inner join jobs on names.job_key = jobs.job_key
    -- Ids of jobs are used again, and by other clusters: the one that ran then.
    qualify
        row_number() over (
            partition by runs.run_key
            order by
                case
                    when jobs.started_at <= runs.ended_at and coalesce(jobs.ended_at >= runs.began_at, true) then 0
                    else 1
                end asc,
                jobs.submitted_at desc nulls last,
                jobs.cluster_id asc
        ) = 1

),

-- Else the only job that held GPUs of its node in that time.
seen as (

    select
        runs.run_key,
        min(holdings.job_key) as job_key
    from runs
    inner join machines on lower(nullif(regexp_extract(runs.node_id, '^([^.]+)', 1), '')) = lower(machines.machine_id)
    inner join holdings
        on
            machines.machine_key = holdings.machine_key
            and runs.ended_at >= holdings.held_from
            and runs.began_at <= holdings.held_until
    where runs.named_job_id is null
    group by runs.run_key
    having count(distinct holdings.job_key) = 1

),

final as (

    select
        runs.run_key,
        runs.source,
        runs.run_id,
        jobs.job_key,
        jobs.cluster_id,
        coalesce(jobs.job_id, runs.named_job_id) as job_id,
        case
            when named.job_key is not null then 'id'
            when seen.job_key is not null then 'node'
        end as job_basis,
        runs.node_id,
        runs.began_at,
        runs.ended_at,
        runs.first_step,
        runs.last_step,
        runs.steps
    from runs
    left join named on runs.run_key = named.run_key
    left join seen on runs.run_key = seen.run_key
    left join jobs on coalesce(named.job_key, seen.job_key) = jobs.job_key

)

select * from final

-- test: accepted_values_silver_training_runs_job_basis__id__node(job_basis) error
where job_basis not in ('id', 'node')

-- test: accepted_values_silver_training_runs_source__wandb__tensorboard__huggingface__lightning__mlperf(source) error
where source not in ('wandb', 'tensorboard', 'huggingface', 'lightning', 'mlperf')

-- test: in_range_silver_training_runs_0__steps(steps) error
where false
    or steps < 0

-- test: not_null_silver_training_runs_run_id(run_id) error
where run_id is null

-- test: not_null_silver_training_runs_run_key(run_key) error
where run_key is null

-- test: not_null_silver_training_runs_source(source) error
where source is null

-- test: not_null_silver_training_runs_steps(steps) error
where steps is null

-- test: unique_silver_training_runs_run_key(run_key) error
select
    run_key as unique_field,
    count(*) as n_records

from "lake"."main"."silver_training_runs"
where run_key is not null
group by run_key
having count(*) > 1
