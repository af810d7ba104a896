{% set waits = ['launch_wait', 'start_wait'] %}

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

grouped as (

    select
        cluster_id,
        gpu_type,
        request_size,
        cast(count(*) as bigint) as tasks,
        {% for wait in waits %}
            cast(count({{ wait }}_seconds) as bigint) as {{ wait }}_tasks,
            avg({{ wait }}_seconds) as mean_{{ wait }}_seconds,
            {{ quantiles(wait ~ '_seconds', [0.5, 0.75, 0.9, 0.95, 0.99]) }} as {{ wait }}_quantiles,
        {% endfor %}
        cast(count(*) as bigint) - count(start_wait_seconds) as unstarted_tasks
    from sized
    group by cluster_id, gpu_type, request_size

),

final as (

    select
        cluster_id,
        gpu_type,
        request_size,
        tasks,
        {% for wait in waits %}
            {{ wait }}_tasks,
            mean_{{ wait }}_seconds,
            {% for percent in [50, 75, 90, 95, 99] %}
                {{ item(wait ~ '_quantiles', loop.index) }} as p{{ percent }}_{{ wait }}_seconds,
            {% endfor %}
        {% endfor %}
        unstarted_tasks
    from grouped

)

select * from final
order by cluster_id, gpu_type, request_size
