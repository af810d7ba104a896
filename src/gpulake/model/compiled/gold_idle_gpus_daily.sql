-- A GPU is held by the owner that its processes or an environment show, or by an unknown owner if it is in use. If the
-- scheduler has allocated more GPUs of a machine than that, the rest is spread over the others. A GPU is free only if
-- the scheduler or the source proves that it has no holder; everything else is unknown.

with samples as not materialized (

    select
        *,
        owner_kind not in ('nobody', 'unknown') as has_owner
    from __dbt__cte__gpu_sample_days

),

nodes as (

    select * from "lake"."main"."silver_nodes"

),

holdings as (

    select * from "lake"."main"."silver_holdings"
    where held_seconds > 0

),

parameters as (

    select * from "landed"."main"."parameters"

),

-- A board with MIG instances is represented by them.
whole as (

    select * from samples
    where
        gpu_id not in (
            select parents.parent_gpu_id
            from samples as parents
            where parents.parent_gpu_id is not null
        )

),

held as (

    select * from holdings
    where machine_key in (select nodes.machine_key from nodes)

),

-- The time in which the scheduler of a cluster says what was held.
scheduled as (

    select
        cluster_id,
        min(held_from) as scheduled_from,
        max(held_until) as scheduled_until
    from held
    group by cluster_id

),

-- Sources look at one GPU after the other, so that one is in view for as long as its samples stand for. A sample over
-- midnight is in two days, and is one all the same.
views as (

    select
        machine_key,
        sampled_at,
        has_owner,
        least(covers_until, lead(sampled_at) over by_time) as seen_until
    from (
        select distinct
            machine_key,
            gpu_id,
            sampled_at,
            covers_until,
            has_owner
        from whole
        where covers_until > sampled_at and machine_key in (select held.machine_key from held)
    ) as once
    window by_time as (partition by machine_key, gpu_id order by sampled_at)

),

changes as (

    select
            machine_key,
            held_from as changed_at,
            gpus as held_gpus,
            0 as seen_gpus,
            0 as owned_gpus
        from held
        union all
    select
            machine_key,
            held_until as changed_at,
            -gpus as held_gpus,
            0 as seen_gpus,
            0 as owned_gpus
        from held
        union all
    select
            machine_key,
            sampled_at as changed_at,
            0 as held_gpus,
            1 as seen_gpus,
            case when has_owner then 1 else 0 end as owned_gpus
        from views
        union all
    select
            machine_key,
            seen_until as changed_at,
            0 as held_gpus,
            -1 as seen_gpus,
            case when has_owner then -1 else 0 end as owned_gpus
        from views
        
    
),

levels as (

    select
        machine_key,
        changed_at,
        sum(held_gpus) over by_time as held_gpus,
        sum(seen_gpus) over by_time as seen_gpus,
        sum(owned_gpus) over by_time as owned_gpus
    from (
        select
            machine_key,
            changed_at,
            sum(held_gpus) as held_gpus,
            sum(seen_gpus) as seen_gpus,
            sum(owned_gpus) as owned_gpus
        from changes
        group by machine_key, changed_at
    ) as steps
    window by_time as (partition by machine_key order by changed_at)

),

shared as (

    select
        whole.*,
        case
            when whole.has_owner then 1.0
            when levels.seen_gpus > levels.owned_gpus
                then
                    least(
                        greatest(levels.held_gpus - levels.owned_gpus, 0) / (levels.seen_gpus - levels.owned_gpus), 1.0
                    )
            else 0
        end as held_share,
        whole.owner_kind = 'nobody'
        or coalesce(
            whole.machine_key in (select held.machine_key from held)
            and whole.sampled_at >= scheduled.scheduled_from
            and whole.sampled_at < scheduled.scheduled_until,
            false
        ) as is_rest_free
    from whole
    left join levels on whole.machine_key = levels.machine_key and whole.sampled_at = levels.changed_at
    left join scheduled on whole.cluster_id = scheduled.cluster_id

),

judged as (

    select
        shared.*,
        shared.busy_ratio < parameters.idle_gpu_ratio as is_idle,
        shared.held_share * shared.seconds / 3600 as held_hours,
        case when shared.is_rest_free then (1 - shared.held_share) * shared.seconds / 3600 else 0 end as free_hours,
        case when shared.is_rest_free then 0 else (1 - shared.held_share) * shared.seconds / 3600 end as unknown_hours
    from shared
    cross join parameters

),

owners as (

    select
        cluster_id,
        dt,
        gpu_id,
        owner_kind,
        coalesce(owner_id, owner_kind) as owner_id,
        sum(held_hours) as idle_hours
    from judged
    where has_owner and is_idle
    group by all

),

main_owners as (

    select * from owners
    qualify
        row_number() over (
            partition by cluster_id, dt, gpu_id order by idle_hours desc, owner_kind asc, owner_id asc
        ) = 1

),

summed as (

    select
        cluster_id,
        dt,
        max(node_id) as node_id,
        gpu_id,
        max(gpu_index) as gpu_index,
        max(gpu_name) as gpu_name,
        sum(seconds) / 3600 as observed_hours,
        sum(case when busy_ratio is null then seconds else 0 end) / 3600 as unmeasured_hours,
        sum(case when busy_ratio is not null then free_hours else 0 end) as free_hours,
        sum(case when busy_ratio is not null then unknown_hours else 0 end) as unknown_hours,
        sum(case when busy_ratio is not null then held_hours else 0 end) as held_hours,
        sum(case when busy_ratio is not null and owner_kind = 'unattributed' then held_hours else 0 end)
            as held_by_unknown_hours,
        sum(case when is_idle then held_hours else 0 end) as held_idle_hours,
        sum(case when not is_idle then held_hours else 0 end) as held_busy_hours,
        sum(case when is_idle and processes = 0 then held_hours else 0 end) as held_empty_hours,
        sum(
                case
                    when is_idle and has_owner and coalesce(owner_evidence, 'process') = 'process'
                        then held_hours
                    else 0
                end
            ) as idle_by_process_hours,
        sum(
                case
                    when is_idle and has_owner and coalesce(owner_evidence, 'process') = 'environment'
                        then held_hours
                    else 0
                end
            ) as idle_by_environment_hours,
        sum(
                case
                    when is_idle and has_owner and coalesce(owner_evidence, 'process') = 'use'
                        then held_hours
                    else 0
                end
            ) as idle_by_use_hours,
        sum(case when is_idle and not has_owner then held_hours else 0 end) as idle_by_scheduler_hours
    from judged
    group by cluster_id, dt, gpu_id

),

final as (

    select
        summed.*,
        summed.held_idle_hours / nullif(summed.held_hours, 0) as idle_ratio,
        main_owners.owner_kind as idle_owner_kind,
        main_owners.owner_id as idle_owner_id
    from summed
    left join main_owners
        on
            summed.cluster_id = main_owners.cluster_id
            and summed.dt = main_owners.dt
            and summed.gpu_id = main_owners.gpu_id

)

select * from final
order by cluster_id, dt, gpu_id

-- test: a_gpu_is_idle_or_not_once_a_day() error
select cluster_id, dt, gpu_id
from "lake"."main"."gold_idle_gpus_daily"
group by cluster_id, dt, gpu_id
having count(*) > 1

-- test: hours_are_free_unknown_idle_busy_or_unmeasured() error
where not (abs(observed_hours - unmeasured_hours - free_hours - unknown_hours - held_idle_hours - held_busy_hours) < 1e-6)

-- test: idle_hours_have_evidence() error
where not (abs(held_idle_hours - idle_by_process_hours - idle_by_environment_hours - idle_by_use_hours - idle_by_scheduler_hours) < 1e-6)

-- test: in_range_gold_idle_gpus_daily_0__1__idle_ratio(idle_ratio) error
where false
    or idle_ratio < 0
    or idle_ratio > 1

-- test: in_range_gold_idle_gpus_daily_0__free_hours(free_hours) error
where false
    or free_hours < 0

-- test: in_range_gold_idle_gpus_daily_0__held_busy_hours(held_busy_hours) error
where false
    or held_busy_hours < 0

-- test: in_range_gold_idle_gpus_daily_0__held_by_unknown_hours(held_by_unknown_hours) error
where false
    or held_by_unknown_hours < 0

-- test: in_range_gold_idle_gpus_daily_0__held_empty_hours(held_empty_hours) error
where false
    or held_empty_hours < 0

-- test: in_range_gold_idle_gpus_daily_0__held_hours(held_hours) error
where false
    or held_hours < 0

-- test: in_range_gold_idle_gpus_daily_0__held_idle_hours(held_idle_hours) error
where false
    or held_idle_hours < 0

-- test: in_range_gold_idle_gpus_daily_0__idle_by_environment_hours(idle_by_environment_hours) error
where false
    or idle_by_environment_hours < 0

-- test: in_range_gold_idle_gpus_daily_0__idle_by_process_hours(idle_by_process_hours) error
where false
    or idle_by_process_hours < 0

-- test: in_range_gold_idle_gpus_daily_0__idle_by_scheduler_hours(idle_by_scheduler_hours) error
where false
    or idle_by_scheduler_hours < 0

-- test: in_range_gold_idle_gpus_daily_0__idle_by_use_hours(idle_by_use_hours) error
where false
    or idle_by_use_hours < 0

-- test: in_range_gold_idle_gpus_daily_0__observed_hours(observed_hours) error
where false
    or observed_hours < 0

-- test: in_range_gold_idle_gpus_daily_0__unknown_hours(unknown_hours) error
where false
    or unknown_hours < 0

-- test: in_range_gold_idle_gpus_daily_0__unmeasured_hours(unmeasured_hours) error
where false
    or unmeasured_hours < 0

-- test: not_null_gold_idle_gpus_daily_cluster_id(cluster_id) error
where cluster_id is null

-- test: not_null_gold_idle_gpus_daily_dt(dt) error
where dt is null

-- test: not_null_gold_idle_gpus_daily_free_hours(free_hours) error
where free_hours is null

-- test: not_null_gold_idle_gpus_daily_gpu_id(gpu_id) error
where gpu_id is null

-- test: not_null_gold_idle_gpus_daily_held_busy_hours(held_busy_hours) error
where held_busy_hours is null

-- test: not_null_gold_idle_gpus_daily_held_by_unknown_hours(held_by_unknown_hours) error
where held_by_unknown_hours is null

-- test: not_null_gold_idle_gpus_daily_held_empty_hours(held_empty_hours) error
where held_empty_hours is null

-- test: not_null_gold_idle_gpus_daily_held_hours(held_hours) error
where held_hours is null

-- test: not_null_gold_idle_gpus_daily_held_idle_hours(held_idle_hours) error
where held_idle_hours is null

-- test: not_null_gold_idle_gpus_daily_idle_by_environment_hours(idle_by_environment_hours) error
where idle_by_environment_hours is null

-- test: not_null_gold_idle_gpus_daily_idle_by_process_hours(idle_by_process_hours) error
where idle_by_process_hours is null

-- test: not_null_gold_idle_gpus_daily_idle_by_scheduler_hours(idle_by_scheduler_hours) error
where idle_by_scheduler_hours is null

-- test: not_null_gold_idle_gpus_daily_idle_by_use_hours(idle_by_use_hours) error
where idle_by_use_hours is null

-- test: not_null_gold_idle_gpus_daily_observed_hours(observed_hours) error
where observed_hours is null

-- test: not_null_gold_idle_gpus_daily_unknown_hours(unknown_hours) error
where unknown_hours is null

-- test: not_null_gold_idle_gpus_daily_unmeasured_hours(unmeasured_hours) error
where unmeasured_hours is null
