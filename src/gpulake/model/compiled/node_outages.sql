-- Reported states as stretches. A state holds until a report says otherwise: from when that says it began, if that is
-- after the report before it, else from the report. The first report may tell of what began before it.

with states as (

    select
        cluster_id,
        machine_key,
        seen_at,
        bool_or(is_down) as is_down,
        max(since_at) as since_at,
        max(reason) as reason
    from __dbt__cte__node_states
    group by cluster_id, machine_key, seen_at

),

compared as (

    select
        *,
        lag(is_down) over by_time as was_down,
        lag(seen_at) over by_time as before_at
    from states
    window by_time as (partition by cluster_id, machine_key order by seen_at)

),

changes as (

    select
        *,
        case
            when since_at <= seen_at and (before_at is null or since_at > before_at) then since_at
            else seen_at
        end as began_at
    from compared
    where was_down is distinct from is_down

),

stretches as (

    select
        cluster_id,
        machine_key,
        is_down,
        reason,
        began_at as started_at,
        lead(began_at) over (partition by cluster_id, machine_key order by seen_at) as ended_at
    from changes

)

select
    cluster_id,
    machine_key,
    reason,
    started_at,
    ended_at
from stretches
where is_down
