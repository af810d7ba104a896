-- A worker that still ran is reported again: of the rows of one device the one with the highest peaks, which only grow,
-- is the last. Without a device, rows that say the same are one: two GPUs that do cannot be distinguished.



with sensors as not materialized (

    select
        *,
        cast(hash(worker_name) >> 1 as bigint) as worker_key
    from "landed"."main"."bronze_sensor_table"

),

slurm as (

    select * from __dbt__cte__slurm_usage

),

sampled as (

    select * from __dbt__cte__sampled_usage

),

-- Slurm's own summary covers the whole run; samples fill in what it lacks.
scheduled as (

    select
        coalesce(slurm.worker_key, sampled.worker_key) as worker_key,
        coalesce(slurm.used_cores, sampled.used_cores) as used_cores,
        coalesce(slurm.used_gpus, sampled.used_gpus) as used_gpus,
        coalesce(slurm.mean_memory_bytes, sampled.mean_memory_bytes) as mean_memory_bytes,
        coalesce(slurm.peak_memory_bytes, sampled.peak_memory_bytes) as peak_memory_bytes,
        coalesce(slurm.mean_gpu_memory_bytes, sampled.mean_gpu_memory_bytes) as mean_gpu_memory_bytes,
        coalesce(slurm.peak_gpu_memory_bytes, sampled.peak_gpu_memory_bytes) as peak_gpu_memory_bytes,
        coalesce(slurm.network_read_bytes, sampled.network_read_bytes) as network_read_bytes,
        coalesce(slurm.network_written_bytes, sampled.network_written_bytes) as network_written_bytes
    from slurm
    full outer join sampled on slurm.worker_key = sampled.worker_key

),

-- Nearly every worker has one row, which goes by as it is; only those of the others are compared and added.
repeated as (

    select worker_key
    from sensors
    group by worker_key
    having count(*) > 1

),

several as (

    select * from sensors
    where worker_key in (select repeated.worker_key from repeated)

),

told_once as (

    
    with keyed as not materialized (

        select
            *,
            cast(hash(worker_key, gpu_name, case when gpu_name is null then cast(hash(gpu_wrk_util, avg_gpu_wrk_mem, max_gpu_wrk_mem) >> 1 as bigint) end) >> 1 as bigint) as row_key
        from several

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
    qualify row_number() over (partition by row_key order by max_gpu_wrk_mem desc nulls last, max_mem desc nulls last, keyed) = 1


),

final as (

    select
        worker_key,
        case when isfinite(cpu_usage) then cpu_usage end / 100 as used_cores,
        case when isfinite(gpu_wrk_util) then gpu_wrk_util end / 100 as used_gpus,
        cast(case when isfinite(avg_mem) then avg_mem end * 1073741824 as bigint) as mean_memory_bytes,
        cast(case when isfinite(max_mem) then max_mem end * 1073741824 as bigint) as peak_memory_bytes,
        cast(case when isfinite(avg_gpu_wrk_mem) then avg_gpu_wrk_mem end * 1073741824 as bigint) as mean_gpu_memory_bytes,
        cast(case when isfinite(max_gpu_wrk_mem) then max_gpu_wrk_mem end * 1073741824 as bigint) as peak_gpu_memory_bytes,
        case when isfinite(read) then read end as network_read_bytes,
        case when isfinite(write) then write end as network_written_bytes
    from sensors
    where worker_key not in (select repeated.worker_key from repeated)

    union all

    select
        worker_key,
        max(case when isfinite(cpu_usage) then cpu_usage end) / 100 as used_cores,
        sum(case when isfinite(gpu_wrk_util) then gpu_wrk_util end) / 100 as used_gpus,
        max(cast(case when isfinite(avg_mem) then avg_mem end * 1073741824 as bigint)) as mean_memory_bytes,
        max(cast(case when isfinite(max_mem) then max_mem end * 1073741824 as bigint)) as peak_memory_bytes,
        cast(sum(cast(case when isfinite(avg_gpu_wrk_mem) then avg_gpu_wrk_mem end * 1073741824 as bigint)) as bigint) as mean_gpu_memory_bytes,
        cast(sum(cast(case when isfinite(max_gpu_wrk_mem) then max_gpu_wrk_mem end * 1073741824 as bigint)) as bigint) as peak_gpu_memory_bytes,
        max(case when isfinite(read) then read end) as network_read_bytes,
        max(case when isfinite(write) then write end) as network_written_bytes
    from told_once
    group by worker_key

    union all

    select * from scheduled

)

select * from final

-- test: in_range_silver_instance_usage_0__used_cores(used_cores) error
where false
    or used_cores < 0

-- test: in_range_silver_instance_usage_0__used_gpus(used_gpus) error
where false
    or used_gpus < 0

-- test: not_null_silver_instance_usage_worker_key(worker_key) error
where worker_key is null

-- test: unique_silver_instance_usage_worker_key(worker_key) error
select
    worker_key as unique_field,
    count(*) as n_records

from "lake"."main"."silver_instance_usage"
where worker_key is not null
group by worker_key
having count(*) > 1
