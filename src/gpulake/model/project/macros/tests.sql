{% test in_range(model, column_name, at_least=none, at_most=none) %}
select *
from {{ model }}
where false
    {% if at_least is not none %}or {{ column_name }} < {{ at_least }}{% endif %}
    {% if at_most is not none %}or {{ column_name }} > {{ at_most }}{% endif %}
{% endtest %}

{% test unique_rows(model, columns) %}
select {{ columns | join(', ') }}
from {{ model }}
group by {{ columns | join(', ') }}
having count(*) > 1
{% endtest %}

{% test holds(model, expression) %}
select *
from {{ model }}
where not ({{ expression }})
{% endtest %}

{# Nothing is lost or made up on the way: as many rows as the relation has, or as those of it that count. #}
{% test as_many_rows_as(model, relation, counting='true') %}
select *
from (
    select
        (select count(*) from {{ model }}) as rows_here,
        (select count(*) from {{ relation }} where {{ counting }}) as rows_there
) as counted
where rows_here != rows_there
{% endtest %}

{# Two tables account for the same total, group by group, within a thousandth; sums of floats leave a dust of their own. #}
{% test same_total_as(model, relation, column, by) %}
select {{ by | join(', ') }}
from (
    select {{ by | join(', ') }}, {{ column }} as here, 0e0 as there from {{ model }}
    union all
    select {{ by | join(', ') }}, 0e0 as here, {{ column }} as there from {{ relation }}
) as both_sides
group by {{ by | join(', ') }}
having abs(sum(here) - sum(there)) > 0.001 * sum(there) + 0.000001
{% endtest %}

{# Every window of PAI that ended has a row, and one only. #}
{% test has_every_window(model, landed) %}
select *
from (
    select
        (select count(*) from {{ model }}) as windows_here,
        (select count(distinct {{ window_key() }}) from {{ landed }} where end_time > 0) as windows_there
) as counted
where windows_here != windows_there
{% endtest %}

{# Every instance and every worker of PAI that landed has a row, and there are no more rows than landed. Counting distinct
   keys of millions of rows is expensive: where all rows are there and their keys add up to the same, none is missing. #}
{% test has_every_attempt(model, landed) %}
{%- set cluster_rows -%}
    -- A cluster of another source may have one of these names, too.
    where cluster_id in ('pai', 'synth') and (select count(*) from {{ landed }}) > 0
{%- endset -%}
{%- set instance_there = surrogate_key(['job_name', 'task_name', 'inst_name']) -%}
{%- set worker_there = 'case when worker_name is not null then ' ~ surrogate_key(['worker_name']) ~ ' end' -%}
with differing as (

    select 1 as is_differing
    from (
        select count(*) as attempts, sum(instance_key) as instances, count(worker_key) as ran, sum(worker_key) as workers
        from {{ model }}
        {{ cluster_rows }}
    ) as here
    cross join (
        select
            count(*) as attempts,
            sum({{ instance_there }}) as instances,
            count(worker_name) as ran,
            sum({{ worker_there }}) as workers
        from {{ landed }}
    ) as there
    cross join (
        select count(*) as instances
        from (
            select instance_key
            from {{ model }}
            where instance_key in (select again.instance_key from {{ model }} as again where again.attempt != 1)
            group by instance_key
            having min(attempt) != 1
        ) as without_first
    ) as without_first
    where
        here.attempts != there.attempts
        or here.instances is distinct from there.instances
        or here.ran != there.ran
        or here.workers is distinct from there.workers
        or without_first.instances > 0

)

select *
from (
    select
        -- Of an instance, one attempt is the first; a test of its own says that no attempt is there twice.
        count(case when attempt = 1 then 1 end) as instances_here,
        count(distinct worker_key) as workers_here,
        count(*) as rows_here
    from {{ model }}
    cross join differing
    {{ cluster_rows }}
) as here
cross join (
    select
        count(distinct {{ instance_there }}) as instances_there,
        count(distinct {{ worker_there }}) as workers_there,
        count(*) as rows_there
    from {{ landed }}
    cross join differing
) as there
where instances_here != instances_there or workers_here != workers_there or rows_here > rows_there
{% endtest %}

{# In place of dbt's own, which groups all rows by their value: this one looks at them one by one, as most tests do. #}
{% test accepted_values(model, column_name, values) %}
select {{ column_name }}
from {{ model }}
where {{ column_name }} not in ('{{ values | join("', '") }}')
{% endtest %}
