-- Machines are distinguished by their key alone, whatever their cluster: fewer and shorter keys to group by.






with holdings as (

    select * from "lake"."main"."silver_holdings"
    where held_seconds > 0

),

capacity as (

    select * from "lake"."main"."silver_capacity"

),

clusters as (

    select * from "lake"."main"."silver_clusters"

),

hours as (

    select * from "lake"."main"."silver_hours"

),

instances as (

    select * from "lake"."main"."silver_instances"
    where machine_key is not null

),

unmeasured as (

    select
        instances.machine_key,
        clusters.hour_shift_seconds as shift,
        (epoch_us(greatest(coalesce(instances.started_at, instances.ended_at), clusters.observed_from)) / 1e6)
            as begin_seconds,
        (epoch_us(least(coalesce(instances.ended_at, instances.started_at), clusters.observed_until)) / 1e6)
            as end_seconds
    from instances
    inner join clusters on instances.cluster_id = clusters.cluster_id
    where
        instances.gpus is null
        and instances.status != 'waiting'
        and coalesce(instances.started_at, instances.ended_at) <= clusters.observed_until
        and greatest(instances.started_at, instances.ended_at) >= clusters.observed_from

),

intervals as (

    select
        holdings.machine_key,
        holdings.bucket,
    holdings.use_bucket,
    holdings.gpus,
    holdings.has_checkpoint,
    holdings.is_inferred,
    case when holdings.used_gpus is not null then least(holdings.used_gpus, holdings.gpus) end as used_gpus,
    clusters.hour_shift_seconds as shift,
    (epoch_us(greatest(holdings.held_from, clusters.observed_from)) / 1e6) as begin_seconds,
    (epoch_us(least(holdings.held_until, clusters.observed_until)) / 1e6) as end_seconds,
    (epoch_us(coalesce(holdings.lost_from, holdings.held_until)) / 1e6) as lost_seconds,
        case when holdings.use_bucket = 'used' then least(holdings.used_gpus, holdings.gpus) else 0 end as busy_gpus,
        cast(
            case holdings.use_bucket
                
                    when 'unobserved' then 0
                
                    when 'idle' then 1
                
                    when 'used' then 2
                
            end
            + case holdings.bucket
                
                    when 'failed' then 4
                
                    when 'timed_out' then 8
                
                    when 'interrupted' then 12
                
                else 0
            end
            + case when holdings.has_checkpoint then 16 else 0 end
            + case when holdings.is_inferred then 32 else 0 end
            as smallint
        ) as kind
    from holdings
    inner join clusters on holdings.cluster_id = clusters.cluster_id

),

pieces as (

    select
        *,
        unnest(range(cast(floor((begin_seconds + shift) / 3600) as bigint), cast(ceil((end_seconds + shift) / 3600) as bigint))) as hour_number
    from intervals
    where end_seconds > begin_seconds

),

timed as (

    select
        *,
        (least(end_seconds, hour_number * 3600 + 3600 - shift) - greatest(begin_seconds, hour_number * 3600 - shift)) / 3600 as hours,
        greatest(
            (least(end_seconds, hour_number * 3600 + 3600 - shift) - greatest(greatest(begin_seconds, lost_seconds), hour_number * 3600 - shift)) / 3600, 0
        ) as lost_hours
    from pieces

),

kinds as (

    select
        machine_key,
        hour_number,
        kind,
        sum(lost_hours * gpus) as lost,
        sum((hours - lost_hours) * (gpus - busy_gpus)) as unused,
        sum((hours - lost_hours) * busy_gpus) as used
    from timed
    group by machine_key, hour_number, kind

),

held as (

    select
        machine_key,
        hour_number,
        
            sum(case when kind & 3 = 0 then unused else 0 end) as unobserved_gpu_hours,
        
            sum(case when kind & 3 = 1 then unused else 0 end) as idle_gpu_hours,
        
            sum(case when kind & 3 = 2 then unused else 0 end) as under_used_gpu_hours,
        
        sum(used) as used_gpu_hours,
        
            sum(case when kind & 12 = 4 then lost else 0 end) as failed_gpu_hours,
        
            sum(case when kind & 12 = 8 then lost else 0 end) as timed_out_gpu_hours,
        
            sum(case when kind & 12 = 12 then lost else 0 end) as interrupted_gpu_hours,
        
        sum(case when kind & 16 > 0 then lost else 0 end) as lost_at_least_gpu_hours,
        sum(case when kind & 32 > 0 then lost + unused + used else 0 end) as inferred_gpu_hours,
        sum(case when kind & 32 > 0 then lost else 0 end) as inferred_lost_gpu_hours
    from kinds
    group by machine_key, hour_number

),

-- CPU work is a sign of life, too. Work of which nobody knows what it asked for holds nobody knows how much.
others as (

    
        select
            instances.machine_key,
            cast(floor(((epoch_us(instances.started_at) / 1e6) + clusters.hour_shift_seconds) / 3600) as bigint) as hour_number,
            false as has_unknown_demand
        from instances
        inner join clusters on instances.cluster_id = clusters.cluster_id
        where instances.started_at is not null and instances.gpus = 0

        union all
    
        select
            instances.machine_key,
            cast(floor(((epoch_us(instances.ended_at) / 1e6) + clusters.hour_shift_seconds) / 3600) as bigint) as hour_number,
            false as has_unknown_demand
        from instances
        inner join clusters on instances.cluster_id = clusters.cluster_id
        where instances.ended_at is not null and instances.gpus = 0

        union all
    
    select
        machine_key,
        unnest(range(cast(floor((begin_seconds + shift) / 3600) as bigint), greatest(cast(floor((begin_seconds + shift) / 3600) as bigint), cast(floor((end_seconds + shift) / 3600) as bigint)) + 1)) as hour_number,
        true as has_unknown_demand
    from unmeasured

),

signs as (

    select
        machine_key,
        hour_number,
        bool_or(has_unknown_demand) as has_unknown_demand
    from others
    group by machine_key, hour_number

),

known as (

    select
        coalesce(held.machine_key, signs.machine_key) as machine_key,
        coalesce(held.hour_number, signs.hour_number) as hour_number,
        
            coalesce(held.idle_gpu_hours, 0) as idle_gpu_hours,
        
            coalesce(held.under_used_gpu_hours, 0) as under_used_gpu_hours,
        
            coalesce(held.failed_gpu_hours, 0) as failed_gpu_hours,
        
            coalesce(held.timed_out_gpu_hours, 0) as timed_out_gpu_hours,
        
            coalesce(held.interrupted_gpu_hours, 0) as interrupted_gpu_hours,
        
            coalesce(held.unobserved_gpu_hours, 0) as unobserved_gpu_hours,
        
            coalesce(held.used_gpu_hours, 0) as used_gpu_hours,
        
            coalesce(held.lost_at_least_gpu_hours, 0) as lost_at_least_gpu_hours,
        
            coalesce(held.inferred_gpu_hours, 0) as inferred_gpu_hours,
        
            coalesce(held.inferred_lost_gpu_hours, 0) as inferred_lost_gpu_hours,
        
        coalesce(signs.has_unknown_demand, false) as has_unknown_demand
    from held
    full join signs on held.machine_key = signs.machine_key and held.hour_number = signs.hour_number

),

final as (

    select
        capacity.cluster_id,
        hours.dt,
        known.*
    from known
    inner join capacity on known.machine_key = capacity.machine_key
    inner join hours on capacity.cluster_id = hours.cluster_id and known.hour_number = hours.hour_number

)

select * from final

-- test: a_machine_is_held_once_an_hour() error
select cluster_id, machine_key, hour_number
from "lake"."main"."silver_held_hours"
group by cluster_id, machine_key, hour_number
having count(*) > 1

-- test: in_range_silver_held_hours_0__failed_gpu_hours(failed_gpu_hours) error
where false
    or failed_gpu_hours < 0

-- test: in_range_silver_held_hours_0__idle_gpu_hours(idle_gpu_hours) error
where false
    or idle_gpu_hours < 0

-- test: in_range_silver_held_hours_0__inferred_gpu_hours(inferred_gpu_hours) error
where false
    or inferred_gpu_hours < 0

-- test: in_range_silver_held_hours_0__inferred_lost_gpu_hours(inferred_lost_gpu_hours) error
where false
    or inferred_lost_gpu_hours < 0

-- test: in_range_silver_held_hours_0__interrupted_gpu_hours(interrupted_gpu_hours) error
where false
    or interrupted_gpu_hours < 0

-- test: in_range_silver_held_hours_0__lost_at_least_gpu_hours(lost_at_least_gpu_hours) error
where false
    or lost_at_least_gpu_hours < 0

-- test: in_range_silver_held_hours_0__timed_out_gpu_hours(timed_out_gpu_hours) error
where false
    or timed_out_gpu_hours < 0

-- test: in_range_silver_held_hours_0__under_used_gpu_hours(under_used_gpu_hours) error
where false
    or under_used_gpu_hours < 0

-- test: in_range_silver_held_hours_0__unobserved_gpu_hours(unobserved_gpu_hours) error
where false
    or unobserved_gpu_hours < 0

-- test: in_range_silver_held_hours_0__used_gpu_hours(used_gpu_hours) error
where false
    or used_gpu_hours < 0

-- test: not_null_silver_held_hours_cluster_id(cluster_id) error
where cluster_id is null

-- test: not_null_silver_held_hours_dt(dt) error
where dt is null

-- test: not_null_silver_held_hours_failed_gpu_hours(failed_gpu_hours) error
where failed_gpu_hours is null

-- test: not_null_silver_held_hours_has_unknown_demand(has_unknown_demand) error
where has_unknown_demand is null

-- test: not_null_silver_held_hours_hour_number(hour_number) error
where hour_number is null

-- test: not_null_silver_held_hours_idle_gpu_hours(idle_gpu_hours) error
where idle_gpu_hours is null

-- test: not_null_silver_held_hours_inferred_gpu_hours(inferred_gpu_hours) error
where inferred_gpu_hours is null

-- test: not_null_silver_held_hours_inferred_lost_gpu_hours(inferred_lost_gpu_hours) error
where inferred_lost_gpu_hours is null

-- test: not_null_silver_held_hours_interrupted_gpu_hours(interrupted_gpu_hours) error
where interrupted_gpu_hours is null

-- test: not_null_silver_held_hours_lost_at_least_gpu_hours(lost_at_least_gpu_hours) error
where lost_at_least_gpu_hours is null

-- test: not_null_silver_held_hours_machine_key(machine_key) error
where machine_key is null

-- test: not_null_silver_held_hours_timed_out_gpu_hours(timed_out_gpu_hours) error
where timed_out_gpu_hours is null

-- test: not_null_silver_held_hours_under_used_gpu_hours(under_used_gpu_hours) error
where under_used_gpu_hours is null

-- test: not_null_silver_held_hours_unobserved_gpu_hours(unobserved_gpu_hours) error
where unobserved_gpu_hours is null

-- test: not_null_silver_held_hours_used_gpu_hours(used_gpu_hours) error
where used_gpu_hours is null
