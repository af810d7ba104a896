with events as (

    select * from {{ source('landed', 'bronze_job_events') }}

),

tags as (

    select * from {{ source('landed', 'bronze_group_tag_table') }}

),

-- The same job may stand in several files; the row that knows the latest end knows most.
newest_events as (

    select *
    from events
    qualify row_number() over (
        partition by {{ surrogate_key(['job_name']) }} order by end_time desc nulls last, start_time desc nulls last
    ) = 1

),

newest_tags as (

    select *
    from tags
    qualify row_number() over (partition by {{ surrogate_key(['inst_id']) }} order by workload desc nulls last) = 1

),

final as (

    select
        {{ surrogate_key(['newest_events.job_name']) }} as job_key,
        {{ trace_cluster() }} as cluster_id,
        newest_events.job_name as job_id,
        newest_events.inst_id as job_uid,
        newest_events.user as user_id,
        coalesce(newest_tags.group, newest_events.user) as group_id,
        newest_tags.workload,
        newest_tags.gpu_type_spec as requested_gpu_type,
        {{ canonical_status('newest_events.status') }} as status,
        newest_events.status as source_status,
        {{ trace_instant('newest_events.start_time') }} as submitted_at,
        {{ trace_instant('newest_events.end_time') }} as ended_at,
        {{ finite('nullif(newest_events.end_time, 0) - nullif(newest_events.start_time, 0)') }} as turnaround_seconds,
        {{ trace_time_zone() }} as time_zone
    from newest_events
    left join newest_tags on newest_events.inst_id = newest_tags.inst_id

)

select * from final
