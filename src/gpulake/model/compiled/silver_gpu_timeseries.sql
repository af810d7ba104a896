-- A worker that still ran is reported again, from the same begin to a later end.

with metrics as (

    
    with keyed as not materialized (

        select
            *,
            cast(hash(worker_name, start_time, case when worker_name is null then cast(hash(machine, end_time) >> 1 as bigint) end) >> 1 as bigint) as row_key
        from "landed"."main"."bronze_machine_metrics"

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
    qualify row_number() over (partition by row_key order by end_time desc nulls last, keyed) = 1


),

machines as (

    select * from "lake"."main"."silver_machines"
    where cluster_id in ('pai', 'synth')

),

final as (

    select
        case when metrics.machine like 'synth-%' then 'synth' else 'pai' end as cluster_id,
        cast(hash(metrics.machine) >> 1 as bigint) as machine_key,
        case when metrics.worker_name is not null then cast(hash(metrics.worker_name) >> 1 as bigint) end as worker_key,
        to_timestamp(case when isfinite(nullif(metrics.start_time, 0)) then nullif(metrics.start_time, 0) end) as window_started_at,
        to_timestamp(case when isfinite(nullif(metrics.end_time, 0)) then nullif(metrics.end_time, 0) end) as window_ended_at,
        case when isfinite(metrics.machine_gpu) then metrics.machine_gpu end / 100 as busy_gpus,
        case when isfinite(metrics.machine_gpu) then metrics.machine_gpu end / 100 / nullif(machines.gpus, 0) as gpu_util_ratio,
        case when isfinite(metrics.machine_cpu) then metrics.machine_cpu end / 100 as cpu_util_ratio,
        case when isfinite(metrics.machine_cpu_usr) then metrics.machine_cpu_usr end / 100 as cpu_user_ratio,
        case when isfinite(metrics.machine_cpu_kernel) then metrics.machine_cpu_kernel end / 100 as cpu_kernel_ratio,
        case when isfinite(metrics.machine_cpu_iowait) then metrics.machine_cpu_iowait end / 100 as cpu_iowait_ratio,
        case when isfinite(metrics.machine_load_1) then metrics.machine_load_1 end as load_1,
        case when isfinite(metrics.machine_net_receive) then metrics.machine_net_receive end as network_received_bytes,
        case when isfinite(metrics.machine_num_worker) then metrics.machine_num_worker end as mean_workers
    from metrics
    left join machines on metrics.machine = machines.machine_id
    where metrics.end_time > 0

)

select * from final

-- test: a_worker_has_one_window_at_a_time() warn
select worker_key, window_started_at
from "lake"."main"."silver_gpu_timeseries"
group by worker_key, window_started_at
having count(*) > 1

-- test: every_window_that_ended_is_there() error
select *
from (
    select
        (select count(*) from "lake"."main"."silver_gpu_timeseries") as windows_here,
        (select count(distinct cast(hash(worker_name, start_time, case when worker_name is null then cast(hash(machine, end_time) >> 1 as bigint) end) >> 1 as bigint)) from "landed"."main"."bronze_machine_metrics" where end_time > 0) as windows_there
) as counted
where windows_here != windows_there

-- test: in_range_silver_gpu_timeseries_0__1_02__gpu_util_ratio(gpu_util_ratio) warn
where false
    or gpu_util_ratio < 0
    or gpu_util_ratio > 1.02

-- test: in_range_silver_gpu_timeseries_0__busy_gpus(busy_gpus) error
where false
    or busy_gpus < 0

-- test: in_range_silver_gpu_timeseries_0__cpu_util_ratio(cpu_util_ratio) error
where false
    or cpu_util_ratio < 0

-- test: not_null_silver_gpu_timeseries_cluster_id(cluster_id) error
where cluster_id is null

-- test: not_null_silver_gpu_timeseries_machine_key(machine_key) error
where machine_key is null

-- test: not_null_silver_gpu_timeseries_window_ended_at(window_ended_at) error
where window_ended_at is null
