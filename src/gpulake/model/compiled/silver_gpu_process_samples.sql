with reported as (

    select
        node as node_id,
        host_id,
        gpu_uuid as gpu_id,
        coalesce(proc_id, cast(pid as varchar)) as process_id,
        pid,
        comm as command,
        to_timestamp(ts_ms / 1000) as sampled_at,
        memory_used_bytes,
        sm_busy_ratio,
        memory_busy_ratio,
        owner_kind,
        owner_id
    from "landed"."main"."bronze_gpu_processes"

),

nodes as (

    select * from "lake"."main"."silver_nodes"

),

-- The same run may have landed by node and merged.
once as (

    select
        node_id,
        host_id,
        gpu_id,
        process_id,
        sampled_at,
        max(pid) as pid,
        max(command) as command,
        max(case when memory_used_bytes between 0 and 1e17 then memory_used_bytes end) as memory_used_bytes,
        max(case when sm_busy_ratio between 0 and 1 then sm_busy_ratio end) as sm_busy_ratio,
        max(case when memory_busy_ratio between 0 and 1 then memory_busy_ratio end) as memory_busy_ratio,
        max(owner_kind) as owner_kind,
        max(owner_id) as owner_id
    from reported
    group by node_id, host_id, gpu_id, process_id, sampled_at

),

timed as (

    select
        * exclude (moment_0, moment_1, moment_2, moment_3, moment_4, moment_5, moment_6, moment_7, moment_8, moment_9, moment_10, moment_11),
        case
            when gap_seconds is null then 0
            when gap_seconds <= 3 * least(moment_1 - moment_0, moment_2 - moment_1, moment_3 - moment_2, moment_4 - moment_3, moment_5 - moment_4, moment_6 - moment_5, moment_7 - moment_6, moment_8 - moment_7, moment_9 - moment_8, moment_10 - moment_9, moment_11 - moment_10) then least(gap_seconds, 7200)
            else least(gap_seconds, 3 * list_median([moment_1 - moment_0, moment_2 - moment_1, moment_3 - moment_2, moment_4 - moment_3, moment_5 - moment_4, moment_6 - moment_5, moment_7 - moment_6, moment_8 - moment_7, moment_9 - moment_8, moment_10 - moment_9, moment_11 - moment_10]), 7200)
        end as covers_seconds
    from (
        select
            *,
            moment_6 - moment_5 as gap_seconds
        from (
            select
                *,
                (epoch_us(lag(sampled_at, 5) over by_time) / 1e6) as moment_0,
                (epoch_us(lag(sampled_at, 4) over by_time) / 1e6) as moment_1,
                (epoch_us(lag(sampled_at, 3) over by_time) / 1e6) as moment_2,
                (epoch_us(lag(sampled_at, 2) over by_time) / 1e6) as moment_3,
                (epoch_us(lag(sampled_at, 1) over by_time) / 1e6) as moment_4,
                (epoch_us(sampled_at) / 1e6) as moment_5,
                (epoch_us(lead(sampled_at, 1) over by_time) / 1e6) as moment_6,
                (epoch_us(lead(sampled_at, 2) over by_time) / 1e6) as moment_7,
                (epoch_us(lead(sampled_at, 3) over by_time) / 1e6) as moment_8,
                (epoch_us(lead(sampled_at, 4) over by_time) / 1e6) as moment_9,
                (epoch_us(lead(sampled_at, 5) over by_time) / 1e6) as moment_10,
                (epoch_us(lead(sampled_at, 6) over by_time) / 1e6) as moment_11
                
            from once
            window by_time as (partition by node_id, host_id, gpu_id, process_id order by sampled_at)
        ) as followed
    ) as usual


),

final as (

    select
        nodes.cluster_id,
        timed.node_id,
        timed.host_id,
        timed.gpu_id,
        timed.process_id,
        timed.pid,
        timed.command,
        timed.sampled_at,
        timed.covers_seconds,
        timed.memory_used_bytes,
        timed.sm_busy_ratio,
        timed.memory_busy_ratio,
        coalesce(timed.owner_kind, 'unattributed') as owner_kind,
        timed.owner_id
    from timed
    left join nodes on timed.node_id = nodes.node_id

)

select * from final

-- test: a_process_is_sampled_once_at_a_time_on_a_gpu() error
select node_id, host_id, gpu_id, process_id, sampled_at
from "lake"."main"."silver_gpu_process_samples"
group by node_id, host_id, gpu_id, process_id, sampled_at
having count(*) > 1

-- test: not_null_silver_gpu_process_samples_cluster_id(cluster_id) error
where cluster_id is null

-- test: not_null_silver_gpu_process_samples_covers_seconds(covers_seconds) error
where covers_seconds is null

-- test: not_null_silver_gpu_process_samples_gpu_id(gpu_id) error
where gpu_id is null

-- test: not_null_silver_gpu_process_samples_node_id(node_id) error
where node_id is null

-- test: not_null_silver_gpu_process_samples_owner_kind(owner_kind) error
where owner_kind is null

-- test: not_null_silver_gpu_process_samples_pid(pid) error
where pid is null

-- test: not_null_silver_gpu_process_samples_process_id(process_id) error
where process_id is null

-- test: not_null_silver_gpu_process_samples_sampled_at(sampled_at) error
where sampled_at is null

-- test: values_of_gpu_process_samples_can_be() error
where not (coalesce(covers_seconds, 0) >= 0 and coalesce(memory_used_bytes, 0) >= 0 and coalesce(sm_busy_ratio, 0) between 0 and 1 and coalesce(memory_busy_ratio, 0) between 0 and 1)
