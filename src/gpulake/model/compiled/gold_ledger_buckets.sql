with ledger as (

    select * from "lake"."main"."gold_ledger_hourly"

),

clusters as (

    select * from "lake"."main"."silver_clusters"

),

holdings as (

    select * from "lake"."main"."silver_holdings"
    where held_seconds > 0

),

capacity as (

    select * from "lake"."main"."silver_capacity"

),

overcommits as (

    select * from "lake"."main"."silver_overcommits"

),

totals as (

    select
        cluster_id,
        sum(capacity_gpu_hours) as capacity_gpu_hours,
        sum(recorded_down_gpu_hours) as recorded_down_gpu_hours,
        sum(down_gpu_hours) as down_gpu_hours, sum(unknown_gpu_hours) as unknown_gpu_hours, sum(unallocated_gpu_hours) as unallocated_gpu_hours, sum(idle_gpu_hours) as idle_gpu_hours, sum(under_used_gpu_hours) as under_used_gpu_hours, sum(failed_gpu_hours) as failed_gpu_hours, sum(timed_out_gpu_hours) as timed_out_gpu_hours, sum(interrupted_gpu_hours) as interrupted_gpu_hours, sum(unobserved_gpu_hours) as unobserved_gpu_hours, sum(used_gpu_hours) as used_gpu_hours
    from ledger
    group by cluster_id

),

intervals as (

    select
        holdings.cluster_id,
        holdings.bucket,
    holdings.use_bucket,
    holdings.gpus,
    holdings.has_checkpoint,
    holdings.is_inferred,
    case when holdings.used_gpus is not null then least(holdings.used_gpus, holdings.gpus) end as used_gpus,
    clusters.hour_shift_seconds as shift,
    (epoch_us(greatest(holdings.held_from, clusters.observed_from)) / 1e6) as begin_seconds,
    (epoch_us(least(holdings.held_until, clusters.observed_until)) / 1e6) as end_seconds,
    (epoch_us(coalesce(holdings.lost_from, holdings.held_until)) / 1e6) as lost_seconds
    from holdings
    inner join clusters on holdings.cluster_id = clusters.cluster_id
    inner join capacity on holdings.machine_key = capacity.machine_key

),

-- Claims, less the part that exceeds capacity.
pieces as (

    select
        cluster_id,
        bucket,
        use_bucket,
        gpus,
        used_gpus,
        has_checkpoint,
        is_inferred,
        (end_seconds - begin_seconds) / 3600 as hours,
        greatest(end_seconds - greatest(begin_seconds, lost_seconds), 0) / 3600 as lost_hours
    from intervals
    where end_seconds > begin_seconds

    union all

    select
        cluster_id,
        bucket,
        use_bucket,
        gpus,
        used_gpus,
        has_checkpoint,
        is_inferred,
        -hours as hours,
        -lost_hours as lost_hours
    from overcommits

),

-- The part of each bucket in inferred intervals, and the part that was certainly lost.
notes as (

    select
        
            sum(case when has_checkpoint then case
        when bucket = 'failed' then lost_hours * gpus
        else 0
    end else 0 end)
                as certain_failed_gpu_hours,
        
            sum(case when has_checkpoint then case
        when bucket = 'timed_out' then lost_hours * gpus
        else 0
    end else 0 end)
                as certain_timed_out_gpu_hours,
        
            sum(case when has_checkpoint then case
        when bucket = 'interrupted' then lost_hours * gpus
        else 0
    end else 0 end)
                as certain_interrupted_gpu_hours,
        
        -- An upper bound of the loss: if it was not lost, it counts by use.
        greatest(sum(case when has_checkpoint then 0 else lost_hours * gpus end), 0) as doubtful_gpu_hours,
        
            sum(case when is_inferred then case
        when use_bucket = 'idle' then (hours - lost_hours) * gpus
        else 0
    end else 0 end) as inferred_idle_gpu_hours,
        
            sum(case when is_inferred then case
        when use_bucket = 'used' then (hours - lost_hours) * (gpus - used_gpus)
        else 0
    end else 0 end) as inferred_under_used_gpu_hours,
        
            sum(case when is_inferred then case
        when bucket = 'failed' then lost_hours * gpus
        else 0
    end else 0 end) as inferred_failed_gpu_hours,
        
            sum(case when is_inferred then case
        when bucket = 'timed_out' then lost_hours * gpus
        else 0
    end else 0 end) as inferred_timed_out_gpu_hours,
        
            sum(case when is_inferred then case
        when bucket = 'interrupted' then lost_hours * gpus
        else 0
    end else 0 end) as inferred_interrupted_gpu_hours,
        
            sum(case when is_inferred then case
        when use_bucket = 'unobserved' then (hours - lost_hours) * gpus
        else 0
    end else 0 end) as inferred_unobserved_gpu_hours,
        
            sum(case when is_inferred then case
        when use_bucket = 'used' then (hours - lost_hours) * used_gpus
        else 0
    end else 0 end) as inferred_used_gpu_hours,
        
        cluster_id
    from pieces
    group by cluster_id

),

amounts as (

    
        select
            totals.cluster_id,
            cast(1 as bigint) as rank,
            'down' as bucket,
            'The machine was out of service' as meaning,
            'Recorded outages; else machines that lost all attempts at one moment and stayed silent' as rests_on,
            totals.down_gpu_hours as gpu_hours,
            
                totals.down_gpu_hours
             as gpu_hours_at_least,
            totals.down_gpu_hours
            + totals.unknown_gpu_hours
            
             as gpu_hours_at_most,
            totals.down_gpu_hours / nullif(totals.capacity_gpu_hours, 0) as capacity_ratio,
            
                cast(null as double)
             as sensed_ratio,
            
                1 - totals.recorded_down_gpu_hours / nullif(totals.down_gpu_hours, 0)
             as inferred_ratio
        from totals
        
        union all
    
        select
            totals.cluster_id,
            cast(2 as bigint) as rank,
            'unknown' as bucket,
            'It is unknown whether it was held' as meaning,
            'Attempts with unknown demand; machines silent for far longer than usual; GPUs in use that no job explains' as rests_on,
            totals.unknown_gpu_hours as gpu_hours,
            
                totals.unknown_gpu_hours
             as gpu_hours_at_least,
            totals.unknown_gpu_hours
            
            
             as gpu_hours_at_most,
            totals.unknown_gpu_hours / nullif(totals.capacity_gpu_hours, 0) as capacity_ratio,
            
                cast(null as double)
             as sensed_ratio,
            
                cast(null as double)
             as inferred_ratio
        from totals
        
        union all
    
        select
            totals.cluster_id,
            cast(3 as bigint) as rank,
            'unallocated' as bucket,
            'Not held' as meaning,
            'Capacity less down, unknown and held' as rests_on,
            totals.unallocated_gpu_hours as gpu_hours,
            
                totals.unallocated_gpu_hours
             as gpu_hours_at_least,
            totals.unallocated_gpu_hours
            + totals.unknown_gpu_hours
            
             as gpu_hours_at_most,
            totals.unallocated_gpu_hours / nullif(totals.capacity_gpu_hours, 0) as capacity_ratio,
            
                cast(null as double)
             as sensed_ratio,
            
                cast(null as double)
             as inferred_ratio
        from totals
        
        union all
    
        select
            totals.cluster_id,
            cast(4 as bigint) as rank,
            'idle' as bucket,
            'Held, with no work on it' as meaning,
            'Sensors: the attempt used less than idle_gpu_ratio of what it held' as rests_on,
            totals.idle_gpu_hours as gpu_hours,
            
                totals.idle_gpu_hours
             as gpu_hours_at_least,
            totals.idle_gpu_hours
            + totals.unknown_gpu_hours
            + totals.unobserved_gpu_hours
            + coalesce(notes.doubtful_gpu_hours, 0) as gpu_hours_at_most,
            totals.idle_gpu_hours / nullif(totals.capacity_gpu_hours, 0) as capacity_ratio,
            
                totals.idle_gpu_hours / nullif(idle_gpu_hours + under_used_gpu_hours + used_gpu_hours, 0)
             as sensed_ratio,
            
                least(greatest(notes.inferred_idle_gpu_hours, 0), totals.idle_gpu_hours)
                / nullif(totals.idle_gpu_hours, 0)
             as inferred_ratio
        from totals
        
            left join notes on totals.cluster_id = notes.cluster_id
        
        union all
    
        select
            totals.cluster_id,
            cast(5 as bigint) as rank,
            'under_used' as bucket,
            'Unused part of what a working attempt held' as meaning,
            'Sensors: held less used' as rests_on,
            totals.under_used_gpu_hours as gpu_hours,
            
                totals.under_used_gpu_hours
             as gpu_hours_at_least,
            totals.under_used_gpu_hours
            + totals.unknown_gpu_hours
            + totals.unobserved_gpu_hours
            + coalesce(notes.doubtful_gpu_hours, 0) as gpu_hours_at_most,
            totals.under_used_gpu_hours / nullif(totals.capacity_gpu_hours, 0) as capacity_ratio,
            
                totals.under_used_gpu_hours / nullif(idle_gpu_hours + under_used_gpu_hours + used_gpu_hours, 0)
             as sensed_ratio,
            
                least(greatest(notes.inferred_under_used_gpu_hours, 0), totals.under_used_gpu_hours)
                / nullif(totals.under_used_gpu_hours, 0)
             as inferred_ratio
        from totals
        
            left join notes on totals.cluster_id = notes.cluster_id
        
        union all
    
        select
            totals.cluster_id,
            cast(6 as bigint) as rank,
            'failed' as bucket,
            'Held by an attempt that failed or lost its node, since its last checkpoint' as meaning,
            'Its interval; all of it if no checkpoint is known' as rests_on,
            totals.failed_gpu_hours as gpu_hours,
            
                -- Rounding of sums may give slightly less than zero, or more than the bucket.
                least(greatest(coalesce(notes.certain_failed_gpu_hours, 0), 0), totals.failed_gpu_hours)
             as gpu_hours_at_least,
            totals.failed_gpu_hours
            + totals.unknown_gpu_hours
            
             as gpu_hours_at_most,
            totals.failed_gpu_hours / nullif(totals.capacity_gpu_hours, 0) as capacity_ratio,
            
                cast(null as double)
             as sensed_ratio,
            
                least(greatest(notes.inferred_failed_gpu_hours, 0), totals.failed_gpu_hours)
                / nullif(totals.failed_gpu_hours, 0)
             as inferred_ratio
        from totals
        
            left join notes on totals.cluster_id = notes.cluster_id
        
        union all
    
        select
            totals.cluster_id,
            cast(7 as bigint) as rank,
            'timed_out' as bucket,
            'Held by an attempt that reached its time limit, since its last checkpoint' as meaning,
            'Its interval; all of it if no checkpoint is known' as rests_on,
            totals.timed_out_gpu_hours as gpu_hours,
            
                -- Rounding of sums may give slightly less than zero, or more than the bucket.
                least(greatest(coalesce(notes.certain_timed_out_gpu_hours, 0), 0), totals.timed_out_gpu_hours)
             as gpu_hours_at_least,
            totals.timed_out_gpu_hours
            + totals.unknown_gpu_hours
            
             as gpu_hours_at_most,
            totals.timed_out_gpu_hours / nullif(totals.capacity_gpu_hours, 0) as capacity_ratio,
            
                cast(null as double)
             as sensed_ratio,
            
                least(greatest(notes.inferred_timed_out_gpu_hours, 0), totals.timed_out_gpu_hours)
                / nullif(totals.timed_out_gpu_hours, 0)
             as inferred_ratio
        from totals
        
            left join notes on totals.cluster_id = notes.cluster_id
        
        union all
    
        select
            totals.cluster_id,
            cast(8 as bigint) as rank,
            'interrupted' as bucket,
            'Held by an attempt that was preempted or stopped with its gang, since its last checkpoint' as meaning,
            'Its interval; all of it if no checkpoint is known' as rests_on,
            totals.interrupted_gpu_hours as gpu_hours,
            
                -- Rounding of sums may give slightly less than zero, or more than the bucket.
                least(greatest(coalesce(notes.certain_interrupted_gpu_hours, 0), 0), totals.interrupted_gpu_hours)
             as gpu_hours_at_least,
            totals.interrupted_gpu_hours
            + totals.unknown_gpu_hours
            
             as gpu_hours_at_most,
            totals.interrupted_gpu_hours / nullif(totals.capacity_gpu_hours, 0) as capacity_ratio,
            
                cast(null as double)
             as sensed_ratio,
            
                least(greatest(notes.inferred_interrupted_gpu_hours, 0), totals.interrupted_gpu_hours)
                / nullif(totals.interrupted_gpu_hours, 0)
             as inferred_ratio
        from totals
        
            left join notes on totals.cluster_id = notes.cluster_id
        
        union all
    
        select
            totals.cluster_id,
            cast(9 as bigint) as rank,
            'unobserved' as bucket,
            'Held by an attempt without a sensor' as meaning,
            'Its interval; its use is unknown' as rests_on,
            totals.unobserved_gpu_hours as gpu_hours,
            
                totals.unobserved_gpu_hours
             as gpu_hours_at_least,
            totals.unobserved_gpu_hours
            + totals.unknown_gpu_hours
            
            + coalesce(notes.doubtful_gpu_hours, 0) as gpu_hours_at_most,
            totals.unobserved_gpu_hours / nullif(totals.capacity_gpu_hours, 0) as capacity_ratio,
            
                cast(null as double)
             as sensed_ratio,
            
                least(greatest(notes.inferred_unobserved_gpu_hours, 0), totals.unobserved_gpu_hours)
                / nullif(totals.unobserved_gpu_hours, 0)
             as inferred_ratio
        from totals
        
            left join notes on totals.cluster_id = notes.cluster_id
        
        union all
    
        select
            totals.cluster_id,
            cast(10 as bigint) as rank,
            'used' as bucket,
            'Held and used' as meaning,
            'Sensors: the mean use over the life of the attempt, of attempts that were not lost' as rests_on,
            totals.used_gpu_hours as gpu_hours,
            
                totals.used_gpu_hours
             as gpu_hours_at_least,
            totals.used_gpu_hours
            + totals.unknown_gpu_hours
            + totals.unobserved_gpu_hours
            + coalesce(notes.doubtful_gpu_hours, 0) as gpu_hours_at_most,
            totals.used_gpu_hours / nullif(totals.capacity_gpu_hours, 0) as capacity_ratio,
            
                totals.used_gpu_hours / nullif(idle_gpu_hours + under_used_gpu_hours + used_gpu_hours, 0)
             as sensed_ratio,
            
                least(greatest(notes.inferred_used_gpu_hours, 0), totals.used_gpu_hours)
                / nullif(totals.used_gpu_hours, 0)
             as inferred_ratio
        from totals
        
            left join notes on totals.cluster_id = notes.cluster_id
        
        
    

),

final as (

    select
        amounts.*,
        clusters.observed_from,
        clusters.observed_until
    from amounts
    inner join clusters on amounts.cluster_id = clusters.cluster_id

)

select * from final
order by cluster_id, rank

-- test: a_bucket_is_told_once() error
select cluster_id, bucket
from "lake"."main"."gold_ledger_buckets"
group by cluster_id, bucket
having count(*) > 1

-- test: in_range_gold_ledger_buckets_0__1_000001__inferred_ratio(inferred_ratio) error
where false
    or inferred_ratio < 0
    or inferred_ratio > 1.000001

-- test: in_range_gold_ledger_buckets_0__1_000001__sensed_ratio(sensed_ratio) error
where false
    or sensed_ratio < 0
    or sensed_ratio > 1.000001

-- test: in_range_gold_ledger_buckets_0__1__capacity_ratio(capacity_ratio) error
where false
    or capacity_ratio < 0
    or capacity_ratio > 1

-- test: in_range_gold_ledger_buckets_0__gpu_hours(gpu_hours) error
where false
    or gpu_hours < 0

-- test: in_range_gold_ledger_buckets_0__gpu_hours_at_least(gpu_hours_at_least) error
where false
    or gpu_hours_at_least < 0

-- test: in_range_gold_ledger_buckets_0__gpu_hours_at_most(gpu_hours_at_most) error
where false
    or gpu_hours_at_most < 0

-- test: not_null_gold_ledger_buckets_bucket(bucket) error
where bucket is null

-- test: not_null_gold_ledger_buckets_cluster_id(cluster_id) error
where cluster_id is null

-- test: not_null_gold_ledger_buckets_gpu_hours(gpu_hours) error
where gpu_hours is null

-- test: not_null_gold_ledger_buckets_gpu_hours_at_least(gpu_hours_at_least) error
where gpu_hours_at_least is null

-- test: not_null_gold_ledger_buckets_gpu_hours_at_most(gpu_hours_at_most) error
where gpu_hours_at_most is null

-- test: not_null_gold_ledger_buckets_meaning(meaning) error
where meaning is null

-- test: not_null_gold_ledger_buckets_observed_from(observed_from) error
where observed_from is null

-- test: not_null_gold_ledger_buckets_observed_until(observed_until) error
where observed_until is null

-- test: not_null_gold_ledger_buckets_rank(rank) error
where rank is null

-- test: not_null_gold_ledger_buckets_rests_on(rests_on) error
where rests_on is null
