-- A worker that still ran is reported again: of the rows of one device the one with the highest peaks, which only grow,
-- is the last. Without a device, rows that say the same are one: two GPUs that do cannot be distinguished.

{% set sums -%}
    max({{ finite('cpu_usage') }}) / 100 as used_cores,
        sum({{ finite('gpu_wrk_util') }}) / 100 as used_gpus,
        max({{ gibibytes('avg_mem') }}) as mean_memory_bytes,
        max({{ gibibytes('max_mem') }}) as peak_memory_bytes,
        cast(sum({{ gibibytes('avg_gpu_wrk_mem') }}) as bigint) as mean_gpu_memory_bytes,
        cast(sum({{ gibibytes('max_gpu_wrk_mem') }}) as bigint) as peak_gpu_memory_bytes,
        max({{ finite('read') }}) as network_read_bytes,
        max({{ finite('write') }}) as network_written_bytes
{%- endset %}

with sensors as not materialized (

    select
        *,
        {{ surrogate_key(['worker_name']) }} as worker_key
    from {{ source('landed', 'bronze_sensor_table') }}

),

slurm as (

    select * from {{ ref('slurm_usage') }}

),

sampled as (

    select * from {{ ref('sampled_usage') }}

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

    {{ newest(
        'several',
        surrogate_key([
            'worker_key', 'gpu_name',
            'case when gpu_name is null then '
            ~ surrogate_key(['gpu_wrk_util', 'avg_gpu_wrk_mem', 'max_gpu_wrk_mem']) ~ ' end'
        ]),
        'max_gpu_wrk_mem desc nulls last, max_mem desc nulls last'
    ) }}

),

final as (

    select
        worker_key,
        {{ finite('cpu_usage') }} / 100 as used_cores,
        {{ finite('gpu_wrk_util') }} / 100 as used_gpus,
        {{ gibibytes('avg_mem') }} as mean_memory_bytes,
        {{ gibibytes('max_mem') }} as peak_memory_bytes,
        {{ gibibytes('avg_gpu_wrk_mem') }} as mean_gpu_memory_bytes,
        {{ gibibytes('max_gpu_wrk_mem') }} as peak_gpu_memory_bytes,
        {{ finite('read') }} as network_read_bytes,
        {{ finite('write') }} as network_written_bytes
    from sensors
    where worker_key not in (select repeated.worker_key from repeated)

    union all

    select
        worker_key,
        {{ sums }}
    from told_once
    group by worker_key

    union all

    select * from scheduled

)

select * from final
