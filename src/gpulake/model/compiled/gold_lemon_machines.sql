-- Jobs that failed, not attempts: one that fails ten times on a machine speaks of the job. Interrupted ones are
-- victims.

with holdings as (

    select
        *,
        coalesce(gpus * ((epoch_us(held_until) / 1e6) - (epoch_us(lost_from) / 1e6)), 0) / 3600 as lost_gpu_hours
    from "lake"."main"."silver_holdings"
    where machine_key is not null

),

machines as (

    select * from "lake"."main"."silver_machines"

),

clusters as (

    select * from "lake"."main"."silver_clusters"

),

tried as (

    select
        machine_key,
        job_key,
        max(case when status in ('failed', 'node_fail') then 1 else 0 end) as has_failed,
        sum(lost_gpu_hours) as lost_gpu_hours,
        sum(case when has_checkpoint then lost_gpu_hours else 0 end) as lost_at_least_gpu_hours,
        sum(case when is_inferred then lost_gpu_hours else 0 end) as inferred_lost_gpu_hours
    from holdings
    group by machine_key, job_key

),

counted as (

    select
        machines.cluster_id,
        machines.machine_key,
        machines.machine_id,
        coalesce(machines.gpu_type, 'unknown') as gpu_type,
        cast(count(*) as bigint) as jobs,
        cast(sum(tried.has_failed) as bigint) as failed_jobs,
        sum(tried.lost_gpu_hours) as lost_gpu_hours,
        sum(tried.lost_at_least_gpu_hours) as lost_at_least_gpu_hours,
        sum(tried.inferred_lost_gpu_hours) as inferred_lost_gpu_hours
    from tried
    inner join machines on tried.machine_key = machines.machine_key
    group by all

),

-- Expected failures at the rate of the other machines of the type; empty without peers.
compared as (

    select
        *,
        cast(jobs as double) * (sum(failed_jobs) over by_type - failed_jobs)
        / nullif(sum(jobs) over by_type - jobs, 0) as expected_failed_jobs
    from counted
    window by_type as (partition by cluster_id, gpu_type)

),

scored as (

    select
        *,
        (failed_jobs - expected_failed_jobs) / sqrt(expected_failed_jobs + 1) as excess_deviations
    from compared

),

final as (

    select
        scored.cluster_id,
        row_number() over (
            partition by scored.cluster_id
            order by scored.excess_deviations desc nulls last, scored.machine_id asc
        ) as rank,
        scored.machine_key,
        scored.machine_id,
        scored.gpu_type,
        scored.jobs,
        scored.failed_jobs,
        scored.expected_failed_jobs,
        scored.excess_deviations,
        coalesce(scored.excess_deviations >= 4 and scored.failed_jobs >= 5, false) as is_lemon,
        scored.lost_gpu_hours,
        scored.lost_at_least_gpu_hours,
        scored.inferred_lost_gpu_hours,
        -- In thirty days like these, what it would lose beyond its peers.
        scored.lost_gpu_hours * case
            when scored.expected_failed_jobs is not null
                then greatest(1 - scored.expected_failed_jobs / nullif(scored.failed_jobs, 0), 0)
        end
        * 2592000 / nullif(
            (epoch_us(clusters.observed_until) / 1e6) - (epoch_us(clusters.observed_from) / 1e6), 0
        ) as gpu_hours_at_risk
    from scored
    inner join clusters on scored.cluster_id = clusters.cluster_id

)

select * from final
order by cluster_id, rank

-- test: in_range_gold_lemon_machines_0__1000000000000_0__rank(rank) error
where false
    or rank < 0
    or rank > 1000000000000.0

-- test: in_range_gold_lemon_machines_0__expected_failed_jobs(expected_failed_jobs) error
where false
    or expected_failed_jobs < 0

-- test: in_range_gold_lemon_machines_0__failed_jobs(failed_jobs) error
where false
    or failed_jobs < 0

-- test: in_range_gold_lemon_machines_0__gpu_hours_at_risk(gpu_hours_at_risk) error
where false
    or gpu_hours_at_risk < 0

-- test: in_range_gold_lemon_machines_0__inferred_lost_gpu_hours(inferred_lost_gpu_hours) error
where false
    or inferred_lost_gpu_hours < 0

-- test: in_range_gold_lemon_machines_0__jobs(jobs) error
where false
    or jobs < 0

-- test: in_range_gold_lemon_machines_0__lost_at_least_gpu_hours(lost_at_least_gpu_hours) error
where false
    or lost_at_least_gpu_hours < 0

-- test: in_range_gold_lemon_machines_0__lost_gpu_hours(lost_gpu_hours) error
where false
    or lost_gpu_hours < 0

-- test: not_null_gold_lemon_machines_cluster_id(cluster_id) error
where cluster_id is null

-- test: not_null_gold_lemon_machines_failed_jobs(failed_jobs) error
where failed_jobs is null

-- test: not_null_gold_lemon_machines_gpu_type(gpu_type) error
where gpu_type is null

-- test: not_null_gold_lemon_machines_inferred_lost_gpu_hours(inferred_lost_gpu_hours) error
where inferred_lost_gpu_hours is null

-- test: not_null_gold_lemon_machines_is_lemon(is_lemon) error
where is_lemon is null

-- test: not_null_gold_lemon_machines_jobs(jobs) error
where jobs is null

-- test: not_null_gold_lemon_machines_lost_at_least_gpu_hours(lost_at_least_gpu_hours) error
where lost_at_least_gpu_hours is null

-- test: not_null_gold_lemon_machines_lost_gpu_hours(lost_gpu_hours) error
where lost_gpu_hours is null

-- test: not_null_gold_lemon_machines_machine_id(machine_id) error
where machine_id is null

-- test: not_null_gold_lemon_machines_machine_key(machine_key) error
where machine_key is null

-- test: not_null_gold_lemon_machines_rank(rank) error
where rank is null

-- test: unique_gold_lemon_machines_machine_key(machine_key) error
select
    machine_key as unique_field,
    count(*) as n_records

from "lake"."main"."gold_lemon_machines"
where machine_key is not null
group by machine_key
having count(*) > 1
