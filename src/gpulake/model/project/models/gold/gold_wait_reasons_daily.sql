with waits as (

    select * from {{ ref('silver_waits') }}

),

clusters as (

    select * from {{ ref('silver_clusters') }}

),

dated as (

    select
        waits.*,
        {{ local_day('waits.submitted_at', 'clusters.time_zone') }} as dt
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
