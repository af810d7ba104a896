-- The job log of Philly in our words: a row for each machine of an attempt. A log may stand in several files.

with attempts as (

    
    with keyed as not materialized (

        select
            *,
            cast(hash(jobid, attempt, ip) >> 1 as bigint) as row_key
        from "landed"."main"."bronze_philly_attempts"

    ),

    repeated as (

        select row_key
        from keyed
        group by row_key
        having count(*) > 1

    )

    select * from keyed
    where row_key not in (select row_key from repeated)

    union all

    select * from keyed
    where row_key in (select row_key from repeated)
    qualify row_number() over (partition by row_key order by end_time desc nulls last, start_time desc nulls last, case case status
        when 'Pass' then 'succeeded'
        when 'Failed' then 'failed'
        when 'Killed' then 'cancelled'
        else 'unknown'
    end when 'succeeded' then 1 when 'failed' then 2 when 'node_fail' then 3 when 'timeout' then 4 when 'interrupted' then 5 when 'cancelled' then 6 when 'running' then 7 when 'waiting' then 8 when 'unknown' then 9 end, keyed) = 1


),

known as (

    select * from "landed"."main"."known_clusters"
    where cluster_id = 'philly'

),

zones as (

    select
        coalesce(max(time_zone), 'UTC') as time_zone,
        max(gpu_type) as gpu_type
    from known

)

select
    attempts.jobid as job_id,
    attempts."user" as user_id,
    attempts.vc as account_id,
    case attempts.status
        when 'Pass' then 'succeeded'
        when 'Failed' then 'failed'
        when 'Killed' then 'cancelled'
        else 'unknown'
    end as job_status,
    cast(coalesce(attempts.attempt, 0) as bigint) as attempt,
    attempts.ip as machine_id,
    coalesce(case when isfinite(attempts.gpu_count) then attempts.gpu_count end, 0) as gpus,
    zones.gpu_type,
    case
        when zones.time_zone = zones.time_zone then timezone(zones.time_zone, attempts.submitted_time)
        else timezone(zones.time_zone, attempts.submitted_time)
    end as submitted_at,
    case
        when zones.time_zone = zones.time_zone then timezone(zones.time_zone, attempts.start_time)
        else timezone(zones.time_zone, attempts.start_time)
    end as started_at,
    case
        when zones.time_zone = zones.time_zone then timezone(zones.time_zone, attempts.end_time)
        else timezone(zones.time_zone, attempts.end_time)
    end as ended_at
from attempts
cross join zones
