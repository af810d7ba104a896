with jobs as (

    select * from __dbt__cte__jobs

),

details as (

    select * from __dbt__cte__job_details

),

final as (

    select
        jobs.*,
        (epoch_us(jobs.started_at) / 1e6) - (epoch_us(jobs.submitted_at) / 1e6) as launch_wait_seconds,
        -- A clock that ran backwards tells no time.
        case
            when jobs.ended_at >= jobs.submitted_at
                then (epoch_us(jobs.ended_at) / 1e6) - (epoch_us(jobs.submitted_at) / 1e6)
        end as turnaround_seconds,
        details.partition_id,
        details.qos_id,
        details.reservation_id,
        details.wait_reason
    from jobs
    left join details on jobs.job_key = details.job_key

)

select * from final

-- test: accepted_values_silver_jobs_status__succeeded__failed__node_fail__timeout__interrupted__cancelled__running__waiting__unknown(status) error
where status not in ('succeeded', 'failed', 'node_fail', 'timeout', 'interrupted', 'cancelled', 'running', 'waiting', 'unknown')

-- test: in_range_silver_jobs_0__launch_wait_seconds(launch_wait_seconds) warn
where false
    or launch_wait_seconds < 0

-- test: in_range_silver_jobs_0__turnaround_seconds(turnaround_seconds) warn
where false
    or turnaround_seconds < 0

-- test: not_null_silver_jobs_cluster_id(cluster_id) error
where cluster_id is null

-- test: not_null_silver_jobs_job_id(job_id) error
where job_id is null

-- test: not_null_silver_jobs_job_key(job_key) error
where job_key is null

-- test: not_null_silver_jobs_status(status) error
where status is null

-- test: unique_silver_jobs_job_key(job_key) error
select
    job_key as unique_field,
    count(*) as n_records

from "lake"."main"."silver_jobs"
where job_key is not null
group by job_key
having count(*) > 1
