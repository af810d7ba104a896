-- What was written down, and silence: a machine that is usually busy and then has nothing to do for as long as it would
-- take it to be busy for many hours is taken to be down. No hour is down twice.

with signs as (

    select * from {{ ref('silver_held_hours') }}

),

capacity as (

    select * from {{ ref('silver_capacity') }}

),

clusters as (

    select * from {{ ref('silver_clusters') }}

),

hours as (

    select * from {{ ref('silver_hours') }}

),

records as (

    {{ newest(
        source('landed', 'bronze_outages'),
        surrogate_key(['lower(cluster)', 'machine', 'started_at']),
        'ended_at asc nulls last'
    ) }}

),

parameters as (

    select * from {{ source('landed', 'parameters') }}

),

spans as (

    select
        cluster_id,
        min(hour_number) as first_hour,
        max(hour_number) as last_hour
    from hours
    group by cluster_id

),

alive as (

    select
        capacity.cluster_id,
        signs.machine_key,
        signs.hour_number,
        spans.first_hour,
        spans.last_hour,
        count(*) over (partition by signs.machine_key) as busy_hours,
        lag(signs.hour_number) over (partition by signs.machine_key order by signs.hour_number) as hour_before
    from signs
    inner join capacity on signs.machine_key = capacity.machine_key and capacity.basis = 'inventory'
    inner join spans on capacity.cluster_id = spans.cluster_id

),

-- The silence before each sign of life, and the one after the last.
silences as (

    select
        cluster_id,
        machine_key,
        busy_hours,
        first_hour,
        last_hour,
        coalesce(hour_before + 1, first_hour) as from_hour,
        hour_number as until_hour
    from alive

    union all

    select
        cluster_id,
        machine_key,
        busy_hours,
        first_hour,
        last_hour,
        max(hour_number) + 1 as from_hour,
        last_hour + 1 as until_hour
    from alive
    group by cluster_id, machine_key, busy_hours, first_hour, last_hour

),

silent as (

    select
        silences.cluster_id,
        silences.machine_key,
        {{ instant('silences.from_hour * 3600 - clusters.hour_shift_seconds') }} as started_at,
        {{ instant('silences.until_hour * 3600 - clusters.hour_shift_seconds') }} as ended_at
    from silences
    inner join clusters on silences.cluster_id = clusters.cluster_id
    cross join parameters
    where
        silences.until_hour - silences.from_hour > 1
        and cast(silences.until_hour - silences.from_hour as double) * silences.busy_hours
        / nullif(
            silences.last_hour - silences.first_hour + 1 - (silences.until_hour - silences.from_hour), 0
        ) >= parameters.missed_busy_hours

),

recorded as (

    select
        clusters.cluster_id,
        {{ machine_key('clusters.cluster_id', 'records.machine') }} as machine_key,
        records.started_at,
        coalesce(records.ended_at, clusters.observed_until) as ended_at
    from records
    inner join clusters on coalesce(lower(records.cluster), 'slurm') = clusters.cluster_id

),

edges as (

    select
        cluster_id,
        machine_key,
        started_at as edge_at,
        1 as record_change,
        0 as silence_change
    from recorded
    where ended_at > started_at

    union all

    select
        cluster_id,
        machine_key,
        ended_at as edge_at,
        -1 as record_change,
        0 as silence_change
    from recorded
    where ended_at > started_at

    union all

    select
        cluster_id,
        machine_key,
        started_at as edge_at,
        0 as record_change,
        1 as silence_change
    from silent

    union all

    select
        cluster_id,
        machine_key,
        ended_at as edge_at,
        0 as record_change,
        -1 as silence_change
    from silent

),

moments as (

    select
        cluster_id,
        machine_key,
        edge_at,
        sum(record_change) as record_change,
        sum(silence_change) as silence_change
    from edges
    group by cluster_id, machine_key, edge_at

),

-- A record says more than silence does.
judged as (

    select
        cluster_id,
        machine_key,
        edge_at,
        case
            when sum(record_change) over by_time > 0 then 'recorded'
            when sum(silence_change) over by_time > 0 then 'silent'
            else 'up'
        end as basis
    from moments
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
