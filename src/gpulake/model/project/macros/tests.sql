{% test in_range(model, column_name, at_least=none, at_most=none) %}
select {{ column_name }}
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
select 1 as broken
from {{ model }}
where not ({{ expression }})
{% endtest %}
