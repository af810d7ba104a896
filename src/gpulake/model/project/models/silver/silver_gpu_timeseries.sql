-- A worker that still ran is reported again, from the same begin to a later end.

with metrics as (

    {{ newest(source('landed', 'bronze_machine_metrics'), window_key(), 'end_time desc nulls last') }}

),

machines as (

    select * from {{ ref('silver_machines') }}
    where cluster_id in ('pai', 'synth')

),

final as (

    select
        {{ pai_cluster('metrics.machine') }} as cluster_id,
        {{ surrogate_key(['metrics.machine']) }} as machine_key,
        case when metrics.worker_name is not null then {{ surrogate_key(['metrics.worker_name']) }} end as worker_key,
        {{ pai_instant('metrics.start_time') }} as window_started_at,
        {{ pai_instant('metrics.end_time') }} as window_ended_at,
        {{ finite('metrics.machine_gpu') }} / 100 as busy_gpus,
        {{ finite('metrics.machine_gpu') }} / 100 / nullif(machines.gpus, 0) as gpu_util_ratio,
        {{ finite('metrics.machine_cpu') }} / 100 as cpu_util_ratio,
        {{ finite('metrics.machine_cpu_usr') }} / 100 as cpu_user_ratio,
        {{ finite('metrics.machine_cpu_kernel') }} / 100 as cpu_kernel_ratio,
        {{ finite('metrics.machine_cpu_iowait') }} / 100 as cpu_iowait_ratio,
        {{ finite('metrics.machine_load_1') }} as load_1,
        {{ finite('metrics.machine_net_receive') }} as network_received_bytes,
        {{ finite('metrics.machine_num_worker') }} as mean_workers
    from metrics
    left join machines on metrics.machine = machines.machine_id
    where metrics.end_time > 0

)

select * from final
