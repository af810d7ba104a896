-- Recorded outages and those that the scheduler reports; for machines without either, inferred deaths and silences,
-- without the hours in which telemetry saw the machine. Stretches of a machine do not overlap.

{% set bases = ['recorded', 'reported', 'seen', 'died', 'silent'] %}

with clusters as (

    select * from {{ ref('silver_clusters') }}

),

records as (

    {{ newest(
        source('landed', 'bronze_outages'),
        surrogate_key(['lower(cluster)', 'machine', 'started_at']),
        'ended_at asc nulls last'
    ) }}

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

states as (

    select * from {{ ref('silver_machine_states') }}

),

reported as (

    select * from states
    where {{ is_reported_down('condition') }}

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
    where {{ is_reported_down('states.condition') }} and not states.is_end_known
    group by states.cluster_id, states.machine_key, states.ended_at

),

died as (

    select * from {{ ref('machine_deaths') }}

),

quiet as (

    select * from {{ ref('machine_silences') }}

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
    from {{ ref('silver_gpu_samples') }}

    union all

    select
        nodes.cluster_id,
        nodes.machine_key,
        hosts.sampled_at
    from {{ ref('silver_host_samples') }} as hosts
    inner join {{ ref('silver_nodes') }} as nodes on hosts.node_id = nodes.node_id

),

sampled_hours as (

    select distinct
        sampled.cluster_id,
        sampled.machine_key,
        {{ hour_number(seconds_of('sampled.sampled_at'), 0) }} as hour_number
    from sampled
    inner join suspects on sampled.machine_key = suspects.machine_key

),

seen as (

    select
        cluster_id,
        machine_key,
        {{ instant('hour_number * 3600') }} as started_at,
        {{ instant('(hour_number + 1) * 3600') }} as ended_at
    from sampled_hours

    union all

    select
        cluster_id,
        machine_key,
        started_at,
        ended_at
    from states
    where not {{ is_reported_down('condition') }}

),

edges as (

    {% for basis in bases %}
        {% for edge, change in [('started_at', 1), ('ended_at', -1)] %}
            select
                cluster_id,
                machine_key,
                {% for each in bases %}
                    {{ change if each == basis else 0 }} as {{ each }}_change,
                {% endfor %}
                {{ edge }} as edge_at
            from {{ basis }}
            where ended_at > started_at
            {{ 'union all' if not loop.last }}
        {% endfor %}
        {{ 'union all' if not loop.last }}
    {% endfor %}

),

turns as (

    select
        cluster_id,
        machine_key,
        {% for basis in bases %}
            sum({{ basis }}_change) as {{ basis }}_change,
        {% endfor %}
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
            {% for basis in bases %}
                when sum({{ basis }}_change) over by_time > 0 then '{{ basis }}'
            {% endfor %}
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
