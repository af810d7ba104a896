-- A machine that is usually busy and then has nothing to do for as long as it would take it to be busy for many hours
-- is taken to be down. Traces do not say so themselves.

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

final as (

    select
        silences.cluster_id,
        silences.machine_key,
        'silent' as basis,
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

)

select * from final
