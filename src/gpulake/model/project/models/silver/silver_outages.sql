-- Recorded outages, by hand or by what a scheduler reports of its nodes; for machines without either, inferred deaths
-- and silences. Stretches of a machine do not overlap.

{% set bases = ['recorded', 'died', 'silent'] %}

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

    union all

    select
        reported.cluster_id,
        reported.machine_key,
        reported.started_at,
        coalesce(reported.ended_at, clusters.observed_until) as ended_at
    from {{ ref('node_outages') }} as reported
    inner join clusters on reported.cluster_id = clusters.cluster_id

),

died as (

    select * from {{ ref('machine_deaths') }}

),

silent as (

    select * from {{ ref('machine_silences') }}

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

-- A record says more than a death does, and that more than silence.
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
    where basis != 'up'

)

select * from final
