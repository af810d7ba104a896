-- Recorded outages and those that the scheduler reports; for machines without either, inferred deaths and silences,
-- without the hours in which telemetry saw the machine. Stretches of a machine do not overlap.



with clusters as (

    select * from "lake"."main"."silver_clusters"

),

records as (

    
    with keyed as not materialized (

        select
            *,
            cast(hash(lower(cluster), machine, started_at) >> 1 as bigint) as row_key
        from "landed"."main"."bronze_outages"

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
    qualify row_number() over (partition by row_key order by ended_at asc nulls last, keyed) = 1


),

recorded as (

    select
        clusters.cluster_id,
        case
        when clusters.cluster_id in ('pai', 'synth') then cast(hash(records.machine) >> 1 as bigint)
        else cast(hash(clusters.cluster_id, records.machine) >> 1 as bigint)
    end as machine_key,
        records.started_at,
        coalesce(records.ended_at, clusters.observed_until) as ended_at
    from records
    inner join clusters on coalesce(lower(records.cluster), 'slurm') = clusters.cluster_id

),

states as (

    select * from "lake"."main"."silver_machine_states"

),

reported as (

    select * from states
    where condition in ('drained', 'maintenance', 'failed', 'not_responding', 'down')

),

-- Nobody asked any more: what was down then need not be down now.
lapsed as (

    select
        states.cluster_id,
        states.machine_key,
        states.ended_at as started_at,
        coalesce(min(later_states.started_at), any_value(clusters.observed_until)) as ended_at
    from states
    inner join clusters on states.cluster_id = clusters.cluster_id
    left join states as later_states
        on states.machine_key = later_states.machine_key and states.ended_at <= later_states.started_at
    where states.condition in ('drained', 'maintenance', 'failed', 'not_responding', 'down') and not states.is_end_known
    group by states.cluster_id, states.machine_key, states.ended_at

),

died as (

    select * from __dbt__cte__machine_deaths

),

quiet as (

    select * from __dbt__cte__machine_silences

),

silent as (

    select
        cluster_id,
        machine_key,
        started_at,
        ended_at
    from quiet

    union all

    select
        cluster_id,
        machine_key,
        started_at,
        ended_at
    from lapsed

),

suspects as (

    select machine_key from died
    union
    select machine_key from quiet

),

sampled as (

    select
        cluster_id,
        machine_key,
        sampled_at
    from "lake"."main"."silver_gpu_samples"

    union all

    select
        nodes.cluster_id,
        nodes.machine_key,
        hosts.sampled_at
    from "lake"."main"."silver_host_samples" as hosts
    inner join "lake"."main"."silver_nodes" as nodes on hosts.node_id = nodes.node_id

),

sampled_hours as (

    select distinct
        sampled.cluster_id,
        sampled.machine_key,
        cast(floor(((epoch_us(sampled.sampled_at) / 1e6) + 0) / 3600) as bigint) as hour_number
    from sampled
    inner join suspects on sampled.machine_key = suspects.machine_key

),

seen as (

    select
        cluster_id,
        machine_key,
        to_timestamp(hour_number * 3600) as started_at,
        to_timestamp((hour_number + 1) * 3600) as ended_at
    from sampled_hours

    union all

    select
        cluster_id,
        machine_key,
        started_at,
        ended_at
    from states
    where not condition in ('drained', 'maintenance', 'failed', 'not_responding', 'down')

),

edges as (

    
        
            select
                cluster_id,
                machine_key,
                
                    1 as recorded_change,
                
                    0 as reported_change,
                
                    0 as seen_change,
                
                    0 as died_change,
                
                    0 as silent_change,
                
                started_at as edge_at
            from recorded
            where ended_at > started_at
            union all
        
            select
                cluster_id,
                machine_key,
                
                    -1 as recorded_change,
                
                    0 as reported_change,
                
                    0 as seen_change,
                
                    0 as died_change,
                
                    0 as silent_change,
                
                ended_at as edge_at
            from recorded
            where ended_at > started_at
            
        
        union all
    
        
            select
                cluster_id,
                machine_key,
                
                    0 as recorded_change,
                
                    1 as reported_change,
                
                    0 as seen_change,
                
                    0 as died_change,
                
                    0 as silent_change,
                
                started_at as edge_at
            from reported
            where ended_at > started_at
            union all
        
            select
                cluster_id,
                machine_key,
                
                    0 as recorded_change,
                
                    -1 as reported_change,
                
                    0 as seen_change,
                
                    0 as died_change,
                
                    0 as silent_change,
                
                ended_at as edge_at
            from reported
            where ended_at > started_at
            
        
        union all
    
        
            select
                cluster_id,
                machine_key,
                
                    0 as recorded_change,
                
                    0 as reported_change,
                
                    1 as seen_change,
                
                    0 as died_change,
                
                    0 as silent_change,
                
                started_at as edge_at
            from seen
            where ended_at > started_at
            union all
        
            select
                cluster_id,
                machine_key,
                
                    0 as recorded_change,
                
                    0 as reported_change,
                
                    -1 as seen_change,
                
                    0 as died_change,
                
                    0 as silent_change,
                
                ended_at as edge_at
            from seen
            where ended_at > started_at
            
        
        union all
    
        
            select
                cluster_id,
                machine_key,
                
                    0 as recorded_change,
                
                    0 as reported_change,
                
                    0 as seen_change,
                
                    1 as died_change,
                
                    0 as silent_change,
                
                started_at as edge_at
            from died
            where ended_at > started_at
            union all
        
            select
                cluster_id,
                machine_key,
                
                    0 as recorded_change,
                
                    0 as reported_change,
                
                    0 as seen_change,
                
                    -1 as died_change,
                
                    0 as silent_change,
                
                ended_at as edge_at
            from died
            where ended_at > started_at
            
        
        union all
    
        
            select
                cluster_id,
                machine_key,
                
                    0 as recorded_change,
                
                    0 as reported_change,
                
                    0 as seen_change,
                
                    0 as died_change,
                
                    1 as silent_change,
                
                started_at as edge_at
            from silent
            where ended_at > started_at
            union all
        
            select
                cluster_id,
                machine_key,
                
                    0 as recorded_change,
                
                    0 as reported_change,
                
                    0 as seen_change,
                
                    0 as died_change,
                
                    -1 as silent_change,
                
                ended_at as edge_at
            from silent
            where ended_at > started_at
            
        
        
    

),

turns as (

    select
        cluster_id,
        machine_key,
        
            sum(recorded_change) as recorded_change,
        
            sum(reported_change) as reported_change,
        
            sum(seen_change) as seen_change,
        
            sum(died_change) as died_change,
        
            sum(silent_change) as silent_change,
        
        edge_at
    from edges
    group by cluster_id, machine_key, edge_at

),

-- A record says more than telemetry does, that more than a death, and that more than silence.
judged as (

    select
        cluster_id,
        machine_key,
        edge_at,
        case
            
                when sum(recorded_change) over by_time > 0 then 'recorded'
            
                when sum(reported_change) over by_time > 0 then 'reported'
            
                when sum(seen_change) over by_time > 0 then 'seen'
            
                when sum(died_change) over by_time > 0 then 'died'
            
                when sum(silent_change) over by_time > 0 then 'silent'
            
            else 'up'
        end as basis
    from turns
    window by_time as (
        partition by cluster_id, machine_key order by edge_at rows between unbounded preceding and current row
    )

),

changes as (

    select *
    from judged
    qualify basis != coalesce(lag(basis) over (partition by cluster_id, machine_key order by edge_at), 'up')

),

stretches as (

    select
        cluster_id,
        machine_key,
        basis,
        edge_at as started_at,
        lead(edge_at) over (partition by cluster_id, machine_key order by edge_at) as ended_at
    from changes

),

final as (

    select * from stretches
    where basis not in ('up', 'seen')

)

select * from final

-- test: accepted_values_silver_outages_basis__recorded__reported__died__silent(basis) error
where basis not in ('recorded', 'reported', 'died', 'silent')

-- test: an_outage_begins_once() error
select machine_key, started_at
from "lake"."main"."silver_outages"
group by machine_key, started_at
having count(*) > 1

-- test: not_null_silver_outages_basis(basis) error
where basis is null

-- test: not_null_silver_outages_cluster_id(cluster_id) error
where cluster_id is null

-- test: not_null_silver_outages_ended_at(ended_at) error
where ended_at is null

-- test: not_null_silver_outages_machine_key(machine_key) error
where machine_key is null

-- test: not_null_silver_outages_started_at(started_at) error
where started_at is null

-- test: nothing_is_down_backwards() error
where not (ended_at > started_at)
