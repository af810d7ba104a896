-- What was written down; of machines of which nothing is written down, deaths and silences. No moment of a machine is
-- in two stretches.



with  __dbt__cte__watched_machines as (
-- Machines of an inventory, not pools. The state of one is inferred unless an outage of it is recorded in the time
-- under observation.

with capacity as (

    select * from "lake"."main"."silver_capacity"

),

clusters as (

    select * from "lake"."main"."silver_clusters"

),

recorded as (

    select case
        when clusters.cluster_id in ('pai', 'synth') then cast(hash(records.machine) >> 1 as bigint)
        else cast(hash(clusters.cluster_id, records.machine) >> 1 as bigint)
    end as machine_key
    from "landed"."main"."bronze_outages" as records
    inner join clusters on coalesce(lower(records.cluster), 'slurm') = clusters.cluster_id
    where
        records.started_at < clusters.observed_until
        and coalesce(records.ended_at, clusters.observed_until) > clusters.observed_from

)

select
    cluster_id,
    machine_key,
    coalesce(gpu_type, 'unknown') as gpu_type,
    machine_key in (select recorded.machine_key from recorded) as is_recorded
from capacity
where basis = 'inventory' and machine_key != cast(hash(cluster_id, '(all machines)') >> 1 as bigint)
),  __dbt__cte__machine_deaths as (
-- Machines that lost all they ran at one moment and then stayed silent against the odds, as docs/ledger.md defines it.
-- Those that lost it at the same moment are judged together.






with holdings as (

    select * from "lake"."main"."silver_holdings"

),

clusters as (

    select * from "lake"."main"."silver_clusters"

),

watched as (

    select * from __dbt__cte__watched_machines

),

begins as (

    select
        watched.cluster_id,
        watched.gpu_type,
        holdings.machine_key,
        holdings.job_key,
        holdings.held_from
    from holdings
    inner join watched on holdings.machine_key = watched.machine_key
    where holdings.start_basis in ('recorded', 'metric')

),

-- What is inferred is no sign of life. What was interrupted went with its gang.
signs as (

    select
        machine_key,
        held_until as happened_at,
        case when status in ('failed', 'node_fail') then 1 else 0 end as lost,
        case when status in ('failed', 'node_fail') or status = 'interrupted' then 0 else 1 end as others
    from holdings
    where end_basis = 'recorded' and machine_key in (select watched.machine_key from watched)

    union all

    select
        machine_key,
        held_from as happened_at,
        0 as lost,
        0 as others
    from begins

),

-- Only the last sign of an hour can be followed by hours of silence: few moments are left to look at.
sign_hours as (

    select
        machine_key,
        cast(floor((epoch(happened_at) + 0) / 3600) as bigint) as hour_number,
        min(happened_at) as first_at,
        max(happened_at) as last_at
    from signs
    group by 1, 2

),

followed as (

    select
        machine_key,
        last_at as happened_at,
        lead(first_at) over (partition by machine_key order by hour_number) as next_sign_at
    from sign_hours

),

quiet as (

    select * from followed
    where next_sign_at is null or next_sign_at >= happened_at + to_seconds(10800)

),

moments as (

    select
        quiet.machine_key,
        quiet.happened_at,
        quiet.next_sign_at,
        sum(signs.lost) as lost,
        sum(signs.others) as others
    from signs
    inner join quiet on signs.machine_key = quiet.machine_key and signs.happened_at = quiet.happened_at
    group by all

),

-- A job comes to machines of a type once.
arrivals as (

    select
        cluster_id,
        gpu_type,
        job_key,
        min(held_from) as began_at
    from begins
    group by cluster_id, gpu_type, job_key

),

totals as (

    select
        cluster_id,
        gpu_type,
        count(*) as jobs
    from arrivals
    group by cluster_id, gpu_type

),

own as (

    select
        machine_key,
        count(distinct job_key) as jobs
    from begins
    group by machine_key

),

silences as (

    select
        watched.cluster_id,
        watched.gpu_type,
        moments.machine_key,
        moments.happened_at,
        moments.lost,
        moments.happened_at + to_seconds(10800) as judged_from,
        coalesce(
            moments.next_sign_at, greatest(clusters.observed_until, moments.happened_at)
        ) as silent_until
    from moments
    inner join watched on moments.machine_key = watched.machine_key
    inner join clusters on watched.cluster_id = clusters.cluster_id
    where moments.lost > 0 and moments.others = 0 and not watched.is_recorded

),

long_silences as (

    select
        *,
        sum(lost) over (partition by cluster_id, happened_at) as lost_at_once
    from silences
    where silent_until >= judged_from

),

as_large as (

    select
        cluster_id,
        lost_at_once,
        sum(count(distinct happened_at)) over (partition by cluster_id order by lost_at_once desc) as moments
    from long_silences
    group by cluster_id, lost_at_once

),

-- How many jobs had come by when: those of the very moment are before the begin of a silence, and after its end.
timeline as (

    select
        cluster_id,
        gpu_type,
        began_at as happens_at,
        1 as place,
        1 as jobs,
        cast(null as bigint) as machine_key,
        cast(null as timestamptz) as silent_since
    from arrivals

    union all

    select
        cluster_id,
        gpu_type,
        judged_from as happens_at,
        2 as place,
        0 as jobs,
        machine_key,
        happened_at as silent_since
    from long_silences

    union all

    select
        cluster_id,
        gpu_type,
        silent_until as happens_at,
        0 as place,
        0 as jobs,
        machine_key,
        happened_at as silent_since
    from long_silences

),

counted as (

    select
        place,
        machine_key,
        silent_since,
        sum(jobs) over (
            partition by cluster_id, gpu_type order by happens_at, place
            rows between unbounded preceding and current row
        ) as jobs
    from timeline

),

came as (

    select
        machine_key,
        silent_since,
        greatest(max(case when place = 0 then jobs end) - max(case when place = 2 then jobs end), 0) as jobs
    from counted
    where place != 1
    group by machine_key, silent_since

),

judged as (

    select
        long_silences.*,
        least(
            coalesce(-ln(1 - least(own.jobs / cast(totals.jobs as double), 0.5)) * came.jobs, 0), 5
        ) as surprise
    from long_silences
    inner join came
        on long_silences.machine_key = came.machine_key and long_silences.happened_at = came.silent_since
    left join own on long_silences.machine_key = own.machine_key
    left join totals on long_silences.cluster_id = totals.cluster_id and long_silences.gpu_type = totals.gpu_type

),

together as (

    select
        *,
        sum(surprise) over (partition by cluster_id, happened_at) as surprise_at_once
    from judged

)

select
    together.cluster_id,
    together.machine_key,
    together.happened_at as started_at,
    together.silent_until as ended_at
from together
inner join as_large on together.cluster_id = as_large.cluster_id and together.lost_at_once = as_large.lost_at_once
where
    together.lost_at_once >= 2
    and as_large.moments * exp(-together.surprise_at_once) <= 0.2
),  __dbt__cte__machine_silences as (
-- Machines that are silent for as long as would usually hold missed_busy_hours hours of work, as busy as the cluster
-- was.

with signs as (

    select * from "lake"."main"."silver_held_hours"

),

clusters as (

    select * from "lake"."main"."silver_clusters"

),

hours as (

    select * from "lake"."main"."silver_hours"

),

watched as (

    select * from __dbt__cte__watched_machines

),

parameters as (

    select * from "landed"."main"."parameters"

),

busy as (

    select
        watched.cluster_id,
        signs.machine_key,
        signs.hour_number
    from signs
    inner join watched on signs.machine_key = watched.machine_key

),

busy_machines as (

    select
        cluster_id,
        hour_number,
        count(*) as machines
    from busy
    group by cluster_id, hour_number

),

-- Busy machine-hours of the cluster, until the end of each hour.
activity as (

    select
        hours.cluster_id,
        hours.hour_number,
        sum(coalesce(busy_machines.machines, 0)) over (
            partition by hours.cluster_id order by hours.hour_number
            rows between unbounded preceding and current row
        ) as until_here,
        sum(coalesce(busy_machines.machines, 0)) over (partition by hours.cluster_id) as in_all,
        min(hours.hour_number) over (partition by hours.cluster_id) as first_hour,
        max(hours.hour_number) over (partition by hours.cluster_id) as last_hour
    from hours
    left join busy_machines
        on hours.cluster_id = busy_machines.cluster_id and hours.hour_number = busy_machines.hour_number

),

bounds as (

    select distinct
        cluster_id,
        in_all,
        first_hour,
        last_hour
    from activity

),

-- The silence before each sign of life, and the one after the last.
followed as (

    select
        busy.*,
        count(*) over (partition by busy.machine_key) as busy_hours,
        lag(busy.hour_number) over (partition by busy.machine_key order by busy.hour_number) as hour_before
    from busy

),

silences as (

    select
        followed.cluster_id,
        followed.machine_key,
        followed.busy_hours,
        bounds.in_all,
        coalesce(followed.hour_before + 1, bounds.first_hour) as from_hour,
        followed.hour_number as until_hour
    from followed
    inner join bounds on followed.cluster_id = bounds.cluster_id

    union all

    select
        followed.cluster_id,
        followed.machine_key,
        max(followed.busy_hours) as busy_hours,
        max(bounds.in_all) as in_all,
        max(followed.hour_number) + 1 as from_hour,
        max(bounds.last_hour) + 1 as until_hour
    from followed
    inner join bounds on followed.cluster_id = bounds.cluster_id
    group by followed.cluster_id, followed.machine_key

),

expected as (

    select
        silences.*,
        coalesce(ends.until_here, 0) - coalesce(begins.until_here, 0) as within
    from silences
    left join activity as begins
        on silences.cluster_id = begins.cluster_id and silences.from_hour - 1 = begins.hour_number
    left join activity as ends
        on silences.cluster_id = ends.cluster_id and silences.until_hour - 1 = ends.hour_number
    where silences.until_hour > silences.from_hour

)

select
    expected.cluster_id,
    expected.machine_key,
    to_timestamp(expected.from_hour * 3600 - clusters.hour_shift_seconds) as started_at,
    to_timestamp(expected.until_hour * 3600 - clusters.hour_shift_seconds) as ended_at
from expected
inner join clusters on expected.cluster_id = clusters.cluster_id
inner join watched on expected.machine_key = watched.machine_key and not watched.is_recorded
cross join parameters
where
    cast(expected.busy_hours as double) * expected.within / nullif(expected.in_all - expected.within, 0)
    >= parameters.missed_busy_hours
), clusters as (

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

died as (

    select * from __dbt__cte__machine_deaths

),

silent as (

    select * from __dbt__cte__machine_silences

),

edges as (

    
        
            select
                cluster_id,
                machine_key,
                
                    1 as recorded_change,
                
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
        
            sum(died_change) as died_change,
        
            sum(silent_change) as silent_change,
        
        edge_at
    from edges
    group by cluster_id, machine_key, edge_at

),

-- A record says more than a death does, and that more than silence.
judged as (

    select
        cluster_id,
        machine_key,
        edge_at,
        case
            
                when sum(recorded_change) over by_time > 0 then 'recorded'
            
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
    where basis != 'up'

)

select * from final

-- test: accepted_values_silver_outages_basis__recorded__died__silent(basis) error
where basis not in ('recorded', 'died', 'silent')

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
