-- Jobs of PAI. The row that knows the latest end knows most.

with events as (

    {{ newest(
        source('landed', 'bronze_job_events'),
        surrogate_key(['job_name']),
        'end_time desc nulls last, start_time desc nulls last, ' ~ status_rank(pai_status('status'))
    ) }}

),

tags as (

    {{ newest(
        source('landed', 'bronze_group_tag_table'),
        surrogate_key(['inst_id']),
        'workload desc nulls last'
    ) }}

),

launches as (

    select
        {{ surrogate_key(['job_name']) }} as job_key,
        min(nullif(start_time, 0)) as first_launch
    from {{ source('landed', 'bronze_task_table') }}
    group by job_key

)

select
    events.row_key as job_key,
    {{ pai_cluster('events.job_name') }} as cluster_id,
    events.job_name as job_id,
    events.user as user_id,
    coalesce(tags.group, events.user) as group_id,
    tags.workload,
    cast(null as varchar) as account_id,
    tags.gpu_type_spec as requested_gpu_type,
    {{ pai_status('events.status') }} as status,
    {{ pai_instant('events.start_time') }} as submitted_at,
    {{ instant(finite('launches.first_launch')) }} as started_at,
    {{ pai_instant('events.end_time') }} as ended_at
from events
left join tags on {{ surrogate_key(['events.inst_id']) }} = tags.row_key
left join launches on events.row_key = launches.job_key
