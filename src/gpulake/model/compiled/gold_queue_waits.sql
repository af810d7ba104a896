with tasks as (

    select * from "lake"."main"."silver_tasks"
    where requested_gpus > 0

),

sized as (

    select
        cluster_id,
        coalesce(gpu_type, 'unknown') as gpu_type,
        case
        when round(requested_gpus * coalesce(planned_instances, 1), 3) < 0.25 then '1: below 0.25'
        when round(requested_gpus * coalesce(planned_instances, 1), 3) < 0.5 then '2: 0.25 to 0.5'
        when round(requested_gpus * coalesce(planned_instances, 1), 3) < 1 then '3: 0.5 to 1'
        when round(requested_gpus * coalesce(planned_instances, 1), 3) = 1 then '4: 1'
        when round(requested_gpus * coalesce(planned_instances, 1), 3) < 8 then '5: above 1, below 8'
        when round(requested_gpus * coalesce(planned_instances, 1), 3) < 64 then '6: 8 to 63'
        else '7: 64 and more'
    end as request_size,
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
        
            cast(count(launch_wait_seconds) as bigint) as launch_wait_tasks,
            avg(launch_wait_seconds) as mean_launch_wait_seconds,
            quantile_cont(launch_wait_seconds, [0.5, 0.75, 0.9, 0.95, 0.99]) as launch_wait_quantiles,
        
            cast(count(start_wait_seconds) as bigint) as start_wait_tasks,
            avg(start_wait_seconds) as mean_start_wait_seconds,
            quantile_cont(start_wait_seconds, [0.5, 0.75, 0.9, 0.95, 0.99]) as start_wait_quantiles,
        
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
        
            launch_wait_tasks,
            mean_launch_wait_seconds,
            
                launch_wait_quantiles[1] as p50_launch_wait_seconds,
            
                launch_wait_quantiles[2] as p75_launch_wait_seconds,
            
                launch_wait_quantiles[3] as p90_launch_wait_seconds,
            
                launch_wait_quantiles[4] as p95_launch_wait_seconds,
            
                launch_wait_quantiles[5] as p99_launch_wait_seconds,
            
        
            start_wait_tasks,
            mean_start_wait_seconds,
            
                start_wait_quantiles[1] as p50_start_wait_seconds,
            
                start_wait_quantiles[2] as p75_start_wait_seconds,
            
                start_wait_quantiles[3] as p90_start_wait_seconds,
            
                start_wait_quantiles[4] as p95_start_wait_seconds,
            
                start_wait_quantiles[5] as p99_start_wait_seconds,
            
        
        unstarted_tasks
    from grouped

)

select * from final
order by cluster_id, gpu_type, request_size

-- test: a_kind_of_request_waits_once() error
select cluster_id, gpu_type, request_size
from "lake"."main"."gold_queue_waits"
group by cluster_id, gpu_type, request_size
having count(*) > 1

-- test: in_range_gold_queue_waits_0__1000000000000_0__tasks(tasks) error
where false
    or tasks < 0
    or tasks > 1000000000000.0

-- test: in_range_gold_queue_waits_0__launch_wait_tasks(launch_wait_tasks) error
where false
    or launch_wait_tasks < 0

-- test: in_range_gold_queue_waits_0__mean_launch_wait_seconds(mean_launch_wait_seconds) error
where false
    or mean_launch_wait_seconds < 0

-- test: in_range_gold_queue_waits_0__mean_start_wait_seconds(mean_start_wait_seconds) error
where false
    or mean_start_wait_seconds < 0

-- test: in_range_gold_queue_waits_0__p50_launch_wait_seconds(p50_launch_wait_seconds) error
where false
    or p50_launch_wait_seconds < 0

-- test: in_range_gold_queue_waits_0__p50_start_wait_seconds(p50_start_wait_seconds) error
where false
    or p50_start_wait_seconds < 0

-- test: in_range_gold_queue_waits_0__p75_launch_wait_seconds(p75_launch_wait_seconds) error
where false
    or p75_launch_wait_seconds < 0

-- test: in_range_gold_queue_waits_0__p75_start_wait_seconds(p75_start_wait_seconds) error
where false
    or p75_start_wait_seconds < 0

-- test: in_range_gold_queue_waits_0__p90_launch_wait_seconds(p90_launch_wait_seconds) error
where false
    or p90_launch_wait_seconds < 0

-- test: in_range_gold_queue_waits_0__p90_start_wait_seconds(p90_start_wait_seconds) error
where false
    or p90_start_wait_seconds < 0

-- test: in_range_gold_queue_waits_0__p95_launch_wait_seconds(p95_launch_wait_seconds) error
where false
    or p95_launch_wait_seconds < 0

-- test: in_range_gold_queue_waits_0__p95_start_wait_seconds(p95_start_wait_seconds) error
where false
    or p95_start_wait_seconds < 0

-- test: in_range_gold_queue_waits_0__p99_launch_wait_seconds(p99_launch_wait_seconds) error
where false
    or p99_launch_wait_seconds < 0

-- test: in_range_gold_queue_waits_0__p99_start_wait_seconds(p99_start_wait_seconds) error
where false
    or p99_start_wait_seconds < 0

-- test: in_range_gold_queue_waits_0__start_wait_tasks(start_wait_tasks) error
where false
    or start_wait_tasks < 0

-- test: in_range_gold_queue_waits_0__unstarted_tasks(unstarted_tasks) error
where false
    or unstarted_tasks < 0

-- test: not_null_gold_queue_waits_cluster_id(cluster_id) error
where cluster_id is null

-- test: not_null_gold_queue_waits_gpu_type(gpu_type) error
where gpu_type is null

-- test: not_null_gold_queue_waits_launch_wait_tasks(launch_wait_tasks) error
where launch_wait_tasks is null

-- test: not_null_gold_queue_waits_request_size(request_size) error
where request_size is null

-- test: not_null_gold_queue_waits_start_wait_tasks(start_wait_tasks) error
where start_wait_tasks is null

-- test: not_null_gold_queue_waits_tasks(tasks) error
where tasks is null

-- test: not_null_gold_queue_waits_unstarted_tasks(unstarted_tasks) error
where unstarted_tasks is null
