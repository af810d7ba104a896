-- What the scheduler says of its machines, as docs/ledger.md defines it. Its own records of outages are exact;
-- snapshots say what they do not: that a machine is up, or in a maintenance window.

{% set least_held_seconds = 3600 %}

with snapshots as (

    {% for source in ['slurm_snapshots', 'kubernetes_node_states'] -%}
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
        from {{ ref(source) }}
        {{ 'union all' if not loop.last }}
    {% endfor %}

),

events as (

    select * from {{ ref('slurm_node_events') }}

),

instances as (

    select * from {{ ref('silver_instances') }}

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
        {{ seconds_of('asked_at') }}
        - {{ seconds_of('lag(asked_at) over (partition by cluster_id order by asked_at)') }} as seconds
    from asked

),

limits as (

    select
        cluster_id,
        greatest(coalesce({{ quantile('seconds', 0.5) }} * 3, 0), {{ least_held_seconds }}) as seconds
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
        case when reason_at is not null then {{ latest(['reason_at', 'last_busy_at']) }} end as stamped_at,
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
            when {{ is_reported_down('condition') }}
                then {{ latest(['previous_at', earliest(['asked_at', 'stamped_at'])]) }}
            when slurmd_started_at > previous_at then {{ earliest(['asked_at', 'slurmd_started_at']) }}
            else asked_at
        end as held_from
    from followed

),

ending as (

    select
        *,
        lead(held_from) over (partition by cluster_id, node order by asked_at) as next_from,
        {{ later('asked_at', 'held_seconds') }} as known_until
    from begun

),

held as (

    select
        *,
        {{ earliest(['next_from', 'known_until']) }} as held_until
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
        or not ({{ is_reported_down('condition') }} or condition = 'draining')
    group by cluster_id, node, stretch

),

-- An outage that lasted when it was last asked for is known to last that long, and a while longer.
open_ended as (

    select
        events.*,
        {{ latest(['events.started_at', 'events.asked_at']) }} as last_known_at,
        coalesce(limits.seconds, {{ least_held_seconds }}) as held_seconds
    from events
    left join limits on events.cluster_id = limits.cluster_id

),

lasting as (

    select
        *,
        {{ machine_key('cluster_id', 'node') }} as machine_key,
        ended_at is not null as is_end_known,
        coalesce(ended_at, {{ later('last_known_at', 'held_seconds') }}) as known_until
    from open_ended

),

-- A machine is drained once the jobs that ran when that was asked for have ended.
busy as (

    select
        lasting.machine_key,
        lasting.started_at,
        max({{ earliest(['instances.ended_at', 'lasting.known_until']) }}) as busy_until
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
        coalesce(limits.seconds, {{ least_held_seconds }}) as held_seconds
    from {{ ref('slurm_reservations') }} as reservations
    left join limits on reservations.cluster_id = limits.cluster_id
    where reservations.is_maintenance and reservations.last_listed_at >= reservations.started_at

),

reserved as (

    select
        cluster_id,
        reservation_id,
        started_at,
        ended_at as planned_until,
        {{ earliest(['ended_at', later('last_listed_at', 'held_seconds')]) }} as known_until,
        {{ each_item('nodes') }} as node
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
        {{ machine_key('cluster_id', 'node') }} as machine_key,
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
