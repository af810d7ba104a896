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
    coalesce(capacity.gpu_type, holdings.gpu_type, 'unknown') as gpu_type,
    holdings.status,
    holdings.bucket,
    holdings.gpus,
    holdings.is_inferred,
    case when holdings.used_gpus is not null then least(holdings.used_gpus, holdings.gpus) end as used_gpus,
    (
        {{ seconds_of('least(holdings.held_until, days.observed_until)') }}
        - {{ seconds_of('greatest(holdings.held_from, days.observed_from)') }}
    ) / 3600 as hours
from holdings
left join capacity on holdings.machine_key = capacity.machine_key
inner join days
    on
        holdings.cluster_id = days.cluster_id
        and holdings.held_from < days.observed_until
        and holdings.held_until > days.observed_from
where holdings.held_seconds > 0
