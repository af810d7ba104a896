{{ config(materialized='table') }}

select
    machine as machine_id,
    worker_name,
    end_time as ts,
    machine_gpu as gpu_util_pct,
    machine_cpu as cpu_util_pct,
    machine_load_1,
    machine_net_receive,
    machine_cpu_iowait,
    machine_cpu_kernel,
    machine_cpu_usr,
    machine_num_worker
from {{ ref('bronze_machine_metrics') }}
where end_time is not null
