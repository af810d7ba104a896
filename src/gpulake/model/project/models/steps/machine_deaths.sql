-- Machines that lost all they ran at one moment and then showed no sign of life for far longer than usual.

{% set least_lost = 3 %}
{% set least_silent_seconds = 10800 %}
{% set times_longer = 2.5 %}

with instances as (

    select
        machine_key,
        status,
        started_at,
        case when ended_at < started_at then null else ended_at end as ended_at
    from {{ ref('silver_instances') }}
    where machine_key is not null

),

windows as (

    select * from {{ ref('silver_gpu_timeseries') }}

),

clusters as (

    select * from {{ ref('silver_clusters') }}

),

watched as (

    select * from {{ ref('watched_machines') }}

),

losses as (

    select
        machine_key,
        ended_at
    from instances
    where status in ('failed', 'node_fail') and ended_at is not null
    group by machine_key, ended_at
    having count(*) >= {{ least_lost }}

),

suspects as (

    select distinct watched.*
    from watched
    inner join losses on watched.machine_key = losses.machine_key

),

-- Signs of life of the machines that may have died, the losses among them.
lives as (

    select
        instances.machine_key,
        instances.ended_at as happened_at,
        case when instances.status in ('failed', 'node_fail') then 1 else 0 end as lost,
        case when instances.status in ('failed', 'node_fail', 'interrupted') then 0 else 1 end as others
    from instances
    where instances.ended_at is not null and instances.machine_key in (select suspects.machine_key from suspects)

    union all

    select
        instances.machine_key,
        instances.started_at as happened_at,
        0 as lost,
        0 as others
    from instances
    where instances.started_at is not null and instances.machine_key in (select suspects.machine_key from suspects)

    union all

    select
        windows.machine_key,
        windows.window_started_at as happened_at,
        0 as lost,
        0 as others
    from windows
    where windows.machine_key in (select suspects.machine_key from suspects)

),

moments as (

    select
        suspects.cluster_id,
        lives.machine_key,
        lives.happened_at,
        sum(lives.lost) as lost,
        sum(lives.others) as others
    from lives
    inner join suspects on lives.machine_key = suspects.machine_key
    group by suspects.cluster_id, lives.machine_key, lives.happened_at

),

pauses as (

    select
        moments.*,
        coalesce(
            lead(moments.happened_at) over (partition by moments.machine_key order by moments.happened_at),
            {{ latest(['clusters.observed_until', 'moments.happened_at']) }}
        ) as until_at
    from moments
    inner join clusters on moments.cluster_id = clusters.cluster_id

),

usual as (

    select
        machine_key,
        {{ quantile(seconds_of('until_at') ~ ' - ' ~ seconds_of('happened_at'), 0.95) }} as seconds
    from pauses
    group by machine_key

)

select
    pauses.cluster_id,
    pauses.machine_key,
    pauses.happened_at as started_at,
    pauses.until_at as ended_at
from pauses
inner join usual on pauses.machine_key = usual.machine_key
where
    pauses.lost >= {{ least_lost }}
    and pauses.others = 0
    and {{ seconds_of('pauses.until_at') }} - {{ seconds_of('pauses.happened_at') }}
    >= greatest({{ least_silent_seconds }}, {{ times_longer }} * usual.seconds)
