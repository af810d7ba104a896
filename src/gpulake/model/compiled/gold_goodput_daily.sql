-- Of the jobs that ended on a day: how much of what they held brought them forward, and how much of their time.

with holdings as not materialized (

    select
        *,
        coalesce(lost_from, held_until) as good_until
    from "lake"."main"."silver_holdings"

),

jobs as (

    select * from "lake"."main"."silver_jobs"

),

days as (

    select * from "lake"."main"."silver_days"

),

spent as (

    select
        job_key,
        max(attempt) as attempts,
        sum(case when attempt = 1 then gpus end) as gang_gpus,
        sum(gpus * held_seconds) / 3600 as held_gpu_hours,
        sum(gpus * ((epoch_us(good_until) / 1e6) - (epoch_us(held_from) / 1e6))) / 3600 as good_gpu_hours
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
        sum(greatest((epoch_us(good_until) / 1e6) - (epoch_us(greatest(held_from, reached_at)) / 1e6), 0))
            as progress_seconds
    from followed
    group by job_key

),

runs as (

    select
        jobs.cluster_id,
        jobs.ended_at,
        case
        when round(spent.gang_gpus, 3) < 0.25 then '1: below 0.25'
        when round(spent.gang_gpus, 3) < 0.5 then '2: 0.25 to 0.5'
        when round(spent.gang_gpus, 3) < 1 then '3: 0.5 to 1'
        when round(spent.gang_gpus, 3) = 1 then '4: 1'
        when round(spent.gang_gpus, 3) < 8 then '5: above 1, below 8'
        when round(spent.gang_gpus, 3) < 64 then '6: 8 to 63'
        else '7: 64 and more'
    end as request_size,
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

-- test: goodput_is_told_once_a_day() error
select cluster_id, dt, request_size
from "lake"."main"."gold_goodput_daily"
group by cluster_id, dt, request_size
having count(*) > 1

-- test: in_range_gold_goodput_daily_0__1_000001__ettr_ratio(ettr_ratio) error
where false
    or ettr_ratio < 0
    or ettr_ratio > 1.000001

-- test: in_range_gold_goodput_daily_0__1_000001__goodput_ratio(goodput_ratio) error
where false
    or goodput_ratio < 0
    or goodput_ratio > 1.000001

-- test: in_range_gold_goodput_daily_0__ended_jobs(ended_jobs) error
where false
    or ended_jobs < 0

-- test: in_range_gold_goodput_daily_0__good_gpu_hours(good_gpu_hours) error
where false
    or good_gpu_hours < 0

-- test: in_range_gold_goodput_daily_0__held_gpu_hours(held_gpu_hours) error
where false
    or held_gpu_hours < 0

-- test: in_range_gold_goodput_daily_0__restarted_jobs(restarted_jobs) error
where false
    or restarted_jobs < 0

-- test: in_range_gold_goodput_daily_0__restarts(restarts) error
where false
    or restarts < 0

-- test: not_null_gold_goodput_daily_cluster_id(cluster_id) error
where cluster_id is null

-- test: not_null_gold_goodput_daily_dt(dt) error
where dt is null

-- test: not_null_gold_goodput_daily_ended_jobs(ended_jobs) error
where ended_jobs is null

-- test: not_null_gold_goodput_daily_good_gpu_hours(good_gpu_hours) error
where good_gpu_hours is null

-- test: not_null_gold_goodput_daily_held_gpu_hours(held_gpu_hours) error
where held_gpu_hours is null

-- test: not_null_gold_goodput_daily_request_size(request_size) error
where request_size is null

-- test: not_null_gold_goodput_daily_restarted_jobs(restarted_jobs) error
where restarted_jobs is null

-- test: not_null_gold_goodput_daily_restarts(restarts) error
where restarts is null
