-- What the scheduler says of its machines, as docs/ledger.md defines it. Its own records of outages are exact;
-- snapshots say what they do not: that a machine is up, or in a maintenance window.



with snapshots as (

    select
            cluster_id,
            node,
            asked_at,
            condition,
            reason,
            reason_by,
            reason_at,
            last_busy_at,
            slurmd_started_at
        from __dbt__cte__slurm_snapshots
        union all
    select
            cluster_id,
            node,
            asked_at,
            condition,
            reason,
            reason_by,
            reason_at,
            last_busy_at,
            slurmd_started_at
        from __dbt__cte__kubernetes_node_states
        
    

),

events as (

    select * from __dbt__cte__slurm_node_events

),

instances as (

    select * from "lake"."main"."silver_instances"

),

asked as (

    select distinct
        cluster_id,
        asked_at
    from snapshots

),

gaps as (

    select
        cluster_id,
        (epoch_us(asked_at) / 1e6)
        - (epoch_us(lag(asked_at) over (partition by cluster_id order by asked_at)) / 1e6) as seconds
    from asked

),

limits as (

    select
        cluster_id,
        greatest(coalesce(quantile_cont(seconds, 0.5) * 3, 0), 3600) as seconds
    from gaps
    group by cluster_id

),

recording as (

    select distinct cluster_id from events

),

said as (

    select
        snapshots.*,
        limits.seconds as held_seconds,
        recording.cluster_id is not null as has_events
    from snapshots
    inner join limits on snapshots.cluster_id = limits.cluster_id
    left join recording on snapshots.cluster_id = recording.cluster_id

),

followed as (

    select
        *,
        case when reason_at is not null then greatest(reason_at, last_busy_at) end as stamped_at,
        lag(asked_at) over by_time as previous_at,
        lag(condition) over by_time as previous_condition
    from said
    window by_time as (partition by cluster_id, node order by asked_at)

),

-- A state holds from its own time stamp (of the reason or, if that is later, of the last job), if that is later than a
-- snapshot that says otherwise; else from the snapshot.
begun as (

    select
        *,
        case
            when condition = previous_condition then asked_at
            when condition in ('drained', 'maintenance', 'failed', 'not_responding', 'down')
                then greatest(previous_at, least(asked_at, stamped_at))
            when slurmd_started_at > previous_at then least(asked_at, slurmd_started_at)
            else asked_at
        end as held_from
    from followed

),

ending as (

    select
        *,
        lead(held_from) over (partition by cluster_id, node order by asked_at) as next_from,
        asked_at + to_seconds(held_seconds) as known_until
    from begun

),

held as (

    select
        *,
        least(next_from, known_until) as held_until
    from ending

),

compared as (

    select
        *,
        lag(held_until) over by_time as previous_until,
        lag(reason) over by_time as previous_reason
    from held
    window by_time as (partition by cluster_id, node order by asked_at)

),

marked as (

    select
        *,
        case
            when
                condition = previous_condition
                and held_from <= previous_until
                and coalesce(reason, '') = coalesce(previous_reason, '')
                then 0
            else 1
        end as is_new
    from compared

),

numbered as (

    select
        *,
        sum(is_new) over (
            partition by cluster_id, node order by asked_at rows between unbounded preceding and current row
        ) as stretch
    from marked

),

-- Where outages are recorded, what a snapshot says of one is said there, to the second.
seen as (

    select
        cluster_id,
        node,
        any_value(condition) as condition,
        any_value(reason) as reason,
        max(reason_by) as reason_by,
        min(held_from) as started_at,
        max(held_until) as ended_at,
        -- Of the last snapshot of the stretch.
        count(next_from) = count(*) and max(next_from) <= max(known_until) as is_end_known,
        'snapshot' as basis
    from numbered
    where
        not has_events
        or condition = 'maintenance'
        or not (condition in ('drained', 'maintenance', 'failed', 'not_responding', 'down') or condition = 'draining')
    group by cluster_id, node, stretch

),

-- An outage that lasted when it was last asked for is known to last that long, and a while longer.
open_ended as (

    select
        events.*,
        greatest(events.started_at, events.asked_at) as last_known_at,
        coalesce(limits.seconds, 3600) as held_seconds
    from events
    left join limits on events.cluster_id = limits.cluster_id

),

lasting as (

    select
        *,
        case
        when cluster_id in ('pai', 'synth') then cast(hash(node) >> 1 as bigint)
        else cast(hash(cluster_id, node) >> 1 as bigint)
    end as machine_key,
        ended_at is not null as is_end_known,
        coalesce(ended_at, last_known_at + to_seconds(held_seconds)) as known_until
    from open_ended

),

-- A machine is drained once the jobs that ran when that was asked for have ended.
busy as (

    select
        lasting.machine_key,
        lasting.started_at,
        max(least(instances.ended_at, lasting.known_until)) as busy_until
    from lasting
    inner join instances on lasting.machine_key = instances.machine_key
    where
        lasting.condition in ('draining', 'drained')
        and instances.started_at < lasting.started_at
        and coalesce(instances.ended_at, lasting.known_until) > lasting.started_at
    group by lasting.machine_key, lasting.started_at

),

drained as (

    select
        lasting.*,
        busy.busy_until
    from lasting
    left join busy on lasting.machine_key = busy.machine_key and lasting.started_at = busy.started_at

),

recorded as (

    select
        cluster_id,
        node,
        case when condition = 'draining' then 'drained' else condition end as condition,
        reason,
        reason_by,
        coalesce(busy_until, started_at) as started_at,
        known_until as ended_at,
        is_end_known,
        'event' as basis
    from drained

    union all

    select
        cluster_id,
        node,
        'draining' as condition,
        reason,
        reason_by,
        started_at,
        busy_until as ended_at,
        true as is_end_known,
        'event' as basis
    from drained
    where busy_until is not null

),

-- A reservation for maintenance that a snapshot found begun is exact, too; as long as it lasts it is known to last
-- until it was last listed, and a while longer. Those of a machine may overlap.
begun_reservations as (

    select
        reservations.*,
        coalesce(limits.seconds, 3600) as held_seconds
    from __dbt__cte__slurm_reservations as reservations
    left join limits on reservations.cluster_id = limits.cluster_id
    where reservations.is_maintenance and reservations.last_listed_at >= reservations.started_at

),

reserved as (

    select
        cluster_id,
        reservation_id,
        started_at,
        ended_at as planned_until,
        least(ended_at, last_listed_at + to_seconds(held_seconds)) as known_until,
        unnest(string_split(nodes, ',')) as node
    from begun_reservations

),

reached as (

    select
        *,
        max(known_until) over (
            partition by cluster_id, node order by started_at, known_until
            rows between unbounded preceding and 1 preceding
        ) as reached_until
    from reserved

),

begun_reserved as (

    select
        *,
        sum(case when started_at <= reached_until then 0 else 1 end) over (
            partition by cluster_id, node order by started_at, known_until
            rows between unbounded preceding and current row
        ) as stretch
    from reached

),

maintained as (

    select
        cluster_id,
        node,
        'maintenance' as condition,
        min(reservation_id) as reason,
        cast(null as varchar) as reason_by,
        min(started_at) as started_at,
        max(known_until) as ended_at,
        bool_and(coalesce(known_until = planned_until, false)) as is_end_known,
        'reservation' as basis
    from begun_reserved
    group by cluster_id, node, stretch

),

every as (

    select * from seen
    union all
    select * from recorded
    union all
    select * from maintained

),

final as (

    select
        cluster_id,
        case
        when cluster_id in ('pai', 'synth') then cast(hash(node) >> 1 as bigint)
        else cast(hash(cluster_id, node) >> 1 as bigint)
    end as machine_key,
        node as machine_id,
        condition,
        reason,
        reason_by,
        started_at,
        ended_at,
        is_end_known,
        basis
    from every
    where ended_at > started_at

)

select * from final

-- test: a_machine_state_begins_once() error
select machine_key, basis, started_at
from "lake"."main"."silver_machine_states"
group by machine_key, basis, started_at
having count(*) > 1

-- test: accepted_values_silver_machine_states_basis__event__reservation__snapshot(basis) error
where basis not in ('event', 'reservation', 'snapshot')

-- test: accepted_values_silver_machine_states_condition__up__reserved__powered_down__unknown__future__draining__drained__maintenance__failed__not_responding__down(condition) error
where condition not in ('up', 'reserved', 'powered_down', 'unknown', 'future', 'draining', 'drained', 'maintenance', 'failed', 'not_responding', 'down')

-- test: no_machine_state_ends_before_it_begins() error
where not (ended_at > started_at)

-- test: not_null_silver_machine_states_basis(basis) error
where basis is null

-- test: not_null_silver_machine_states_cluster_id(cluster_id) error
where cluster_id is null

-- test: not_null_silver_machine_states_condition(condition) error
where condition is null

-- test: not_null_silver_machine_states_ended_at(ended_at) error
where ended_at is null

-- test: not_null_silver_machine_states_is_end_known(is_end_known) error
where is_end_known is null

-- test: not_null_silver_machine_states_machine_id(machine_id) error
where machine_id is null

-- test: not_null_silver_machine_states_machine_key(machine_key) error
where machine_key is null

-- test: not_null_silver_machine_states_started_at(started_at) error
where started_at is null
