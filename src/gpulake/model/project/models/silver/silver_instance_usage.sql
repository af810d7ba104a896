with sensors as (

    select * from {{ source('landed', 'bronze_sensor_table') }}

),

slurm as (

    select * from {{ ref('slurm_usage') }}

),

-- A worker with several GPUs has a row for each.
workers as (

    select
        {{ surrogate_key(['worker_name']) }} as worker_key,
        max({{ finite('cpu_usage') }}) / 100 as used_cores,
        sum({{ finite('gpu_wrk_util') }}) / 100 as used_gpus,
        max({{ gibibytes('avg_mem') }}) as mean_memory_bytes,
        max({{ gibibytes('max_mem') }}) as peak_memory_bytes,
        cast(sum({{ gibibytes('avg_gpu_wrk_mem') }}) as bigint) as mean_gpu_memory_bytes,
        cast(sum({{ gibibytes('max_gpu_wrk_mem') }}) as bigint) as peak_gpu_memory_bytes,
        max({{ finite('read') }}) as network_read_bytes,
        max({{ finite('write') }}) as network_written_bytes
    from sensors
    group by 1

),

final as (

    select * from workers
    union all
    select * from slurm

)

select * from final
