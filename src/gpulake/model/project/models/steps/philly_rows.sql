-- The job log of Philly in our words: a row for each machine of an attempt. A log may stand in several files.

with attempts as (

    {{ newest(
        source('landed', 'bronze_philly_attempts'),
        surrogate_key(['jobid', 'attempt', 'ip']),
        'end_time desc nulls last, start_time desc nulls last, ' ~ status_rank(philly_status('status'))
    ) }}

),

known as (

    select * from {{ source('landed', 'known_clusters') }}
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
    {{ philly_status('attempts.status') }} as job_status,
    cast(coalesce(attempts.attempt, 0) as bigint) as attempt,
    attempts.ip as machine_id,
    coalesce({{ finite('attempts.gpu_count') }}, 0) as gpus,
    zones.gpu_type,
    {{ instant_of_local('attempts.submitted_time', 'zones.time_zone', 'zones.time_zone') }} as submitted_at,
    {{ instant_of_local('attempts.start_time', 'zones.time_zone', 'zones.time_zone') }} as started_at,
    {{ instant_of_local('attempts.end_time', 'zones.time_zone', 'zones.time_zone') }} as ended_at
from attempts
cross join zones
