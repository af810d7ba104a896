-- Of the jobs that ended on a day: how much of what they held brought them forward, and how much of their time.

with holdings as not materialized (

    select
        *,
        coalesce(lost_from, held_until) as good_until
    from {{ ref('silver_holdings') }}

),

jobs as (

    select * from {{ ref('silver_jobs') }}

),

days as (

    select * from {{ ref('silver_days') }}

),

spent as (

    select
        job_key,
        max(attempt) as attempts,
        sum(case when attempt = 1 then gpus end) as gang_gpus,
        sum(gpus * held_seconds) / 3600 as held_gpu_hours,
        sum(gpus * ({{ seconds_of('good_until') }} - {{ seconds_of('held_from') }})) / 3600 as good_gpu_hours
    from holdings
    group by job_key

),

followed as (

    select
        job_key,
        held_from,
        good_until,
        max(good_until) over (
            partition by job_key order by held_from, good_until rows between unbounded preceding and 1 preceding
        ) as reached_at
    from holdings
    where good_until > held_from

),

-- The time in which any attempt ran that was not lost; what several did at once counts once.
progress as (

    select
        job_key,
        sum(greatest({{ seconds_of('good_until') }} - {{ seconds_of(latest(['held_from', 'reached_at'])) }}, 0))
            as progress_seconds
    from followed
    group by job_key

),

runs as (

    select
        jobs.cluster_id,
        jobs.ended_at,
        {{ request_size('spent.gang_gpus') }} as request_size,
        spent.attempts,
        spent.held_gpu_hours,
        spent.good_gpu_hours,
        spent.gang_gpus * jobs.turnaround_seconds / 3600 as wall_gpu_hours,
        case
            when jobs.turnaround_seconds is not null
                then spent.gang_gpus * least(coalesce(progress.progress_seconds, 0), jobs.turnaround_seconds) / 3600
        end as progress_gpu_hours
    from spent
    inner join jobs on spent.job_key = jobs.job_key
    left join progress on spent.job_key = progress.job_key
    where spent.gang_gpus is not null

),

final as (

    select
        runs.cluster_id,
        days.dt,
        runs.request_size,
        cast(count(*) as bigint) as ended_jobs,
        cast(count(case when runs.attempts > 1 then 1 end) as bigint) as restarted_jobs,
        cast(sum(runs.attempts - 1) as bigint) as restarts,
        sum(runs.held_gpu_hours) as held_gpu_hours,
        sum(runs.good_gpu_hours) as good_gpu_hours,
        sum(runs.good_gpu_hours) / nullif(sum(runs.held_gpu_hours), 0) as goodput_ratio,
        sum(runs.progress_gpu_hours) / nullif(sum(runs.wall_gpu_hours), 0) as ettr_ratio
    from runs
    inner join days
        on
            runs.cluster_id = days.cluster_id
            and runs.ended_at >= days.started_at
            and runs.ended_at < days.ended_at
            and runs.ended_at >= days.observed_from
            and runs.ended_at <= days.observed_until
    group by runs.cluster_id, days.dt, runs.request_size

)

select * from final
order by cluster_id, dt, request_size
