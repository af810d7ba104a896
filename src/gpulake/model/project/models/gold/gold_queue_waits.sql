with tasks as (

    select * from {{ ref('silver_tasks') }}
    where requested_gpus > 0

),

sized as (

    select
        cluster_id,
        coalesce(gpu_type, 'unknown') as gpu_type,
        {{ request_size('requested_gpus * coalesce(planned_instances, 1)') }} as request_size,
        -- A clock that ran backwards tells no wait.
        case when launch_wait_seconds >= 0 then launch_wait_seconds end as launch_wait_seconds,
        case when start_wait_seconds >= 0 then start_wait_seconds end as start_wait_seconds
    from tasks

),

final as (

    select
        cluster_id,
        gpu_type,
        request_size,
        cast(count(*) as bigint) as tasks,
        {% for wait in ['launch_wait', 'start_wait'] %}
            cast(count({{ wait }}_seconds) as bigint) as {{ wait }}_tasks,
            avg({{ wait }}_seconds) as mean_{{ wait }}_seconds,
            {% for percent in [50, 75, 90, 95, 99] %}
                {{ quantile(wait ~ '_seconds', percent / 100) }} as p{{ percent }}_{{ wait }}_seconds,
            {% endfor %}
        {% endfor %}
        cast(count(*) as bigint) - count(start_wait_seconds) as unstarted_tasks
    from sized
    group by cluster_id, gpu_type, request_size

)

select * from final
order by cluster_id, gpu_type, request_size
