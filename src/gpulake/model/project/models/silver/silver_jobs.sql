-- The row that knows the latest end knows most.
with events as (

    {{ newest(
        source('landed', 'bronze_job_events'),
        surrogate_key(['job_name']),
        'end_time desc nulls last, start_time desc nulls last'
    ) }}

),

tags as (

    {{ newest(
        source('landed', 'bronze_group_tag_table'),
        surrogate_key(['inst_id']),
        'workload desc nulls last'
    ) }}

),

final as (

    select
        events.row_key as job_key,
        {{ trace_cluster() }} as cluster_id,
        events.job_name as job_id,
        events.user as user_id,
        coalesce(tags.group, events.user) as group_id,
        tags.workload,
        tags.gpu_type_spec as requested_gpu_type,
        {{ canonical_status('events.status') }} as status,
        {{ trace_instant('events.start_time') }} as submitted_at,
        {{ trace_instant('events.end_time') }} as ended_at,
        {{ finite('nullif(events.end_time, 0) - nullif(events.start_time, 0)') }} as turnaround_seconds
    from events
    left join tags on {{ surrogate_key(['events.inst_id']) }} = tags.row_key

)

select * from final
