with waits as (

    select * from "lake"."main"."silver_waits"

),

clusters as (

    select * from "lake"."main"."silver_clusters"

),

dated as (

    select
        waits.*,
        cast(timezone(clusters.time_zone, waits.submitted_at) as date) as dt
    from waits
    inner join clusters on waits.cluster_id = clusters.cluster_id

),

final as (

    select
        cluster_id,
        dt,
        partition_id,
        account_id,
        qos_id,
        reason,
        cast(count(distinct job_key) as bigint) as jobs,
        cast(count(distinct case when is_waiting then job_key end) as bigint) as waiting_jobs,
        sum(wait_seconds) / 3600 as wait_hours,
        sum(requested_gpus * wait_seconds) / 3600 as waiting_gpu_hours,
        sum(case when basis = 'pull' then requested_gpus * wait_seconds else 0 end) / 3600 as pulled_waiting_gpu_hours
    from dated
    group by cluster_id, dt, partition_id, account_id, qos_id, reason

)

select * from final
order by cluster_id, dt, partition_id, account_id, qos_id, reason

-- test: a_reason_of_waiting_has_a_day_once() error
select cluster_id, dt, partition_id, account_id, qos_id, reason
from "lake"."main"."gold_wait_reasons_daily"
group by cluster_id, dt, partition_id, account_id, qos_id, reason
having count(*) > 1

-- test: in_range_gold_wait_reasons_daily_0__jobs(jobs) error
where false
    or jobs < 0

-- test: in_range_gold_wait_reasons_daily_0__pulled_waiting_gpu_hours(pulled_waiting_gpu_hours) error
where false
    or pulled_waiting_gpu_hours < 0

-- test: in_range_gold_wait_reasons_daily_0__wait_hours(wait_hours) error
where false
    or wait_hours < 0

-- test: in_range_gold_wait_reasons_daily_0__waiting_gpu_hours(waiting_gpu_hours) error
where false
    or waiting_gpu_hours < 0

-- test: in_range_gold_wait_reasons_daily_0__waiting_jobs(waiting_jobs) error
where false
    or waiting_jobs < 0

-- test: not_null_gold_wait_reasons_daily_cluster_id(cluster_id) error
where cluster_id is null

-- test: not_null_gold_wait_reasons_daily_dt(dt) error
where dt is null

-- test: not_null_gold_wait_reasons_daily_jobs(jobs) error
where jobs is null

-- test: not_null_gold_wait_reasons_daily_pulled_waiting_gpu_hours(pulled_waiting_gpu_hours) error
where pulled_waiting_gpu_hours is null

-- test: not_null_gold_wait_reasons_daily_reason(reason) error
where reason is null

-- test: not_null_gold_wait_reasons_daily_wait_hours(wait_hours) error
where wait_hours is null

-- test: not_null_gold_wait_reasons_daily_waiting_gpu_hours(waiting_gpu_hours) error
where waiting_gpu_hours is null

-- test: not_null_gold_wait_reasons_daily_waiting_jobs(waiting_jobs) error
where waiting_jobs is null
