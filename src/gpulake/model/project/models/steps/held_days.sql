-- What each attempt held on each day of its cluster's own time zone.

with holdings as (

    select * from {{ ref('silver_holdings') }}

),

capacity as (

    select * from {{ ref('silver_capacity') }}

),

days as (

    select * from {{ ref('silver_days') }}

)

select
    holdings.cluster_id,
    days.dt,
    holdings.job_key,
    -- What the machine has, which may not be what was asked for.
    coalesce(case when capacity.machine_key is null then holdings.gpu_type else capacity.gpu_type end, 'unknown')
        as gpu_type,
    holdings.status,
    holdings.bucket,
    holdings.gpus,
    holdings.is_inferred,
    -- Not least(), which would take what is unknown for all of it.
    case when holdings.used_gpus > holdings.gpus then holdings.gpus else holdings.used_gpus end as used_gpus,
    (
        {{ seconds_of('least(holdings.held_until, days.ended_at)') }}
        - {{ seconds_of('greatest(holdings.held_from, days.started_at)') }}
    ) / 3600 as hours
from holdings
left join capacity on holdings.machine_key = capacity.machine_key
inner join days
    on
        holdings.cluster_id = days.cluster_id
        and holdings.held_from < days.ended_at
        and holdings.held_until > days.started_at
where holdings.held_seconds > 0
