{# Each GPU-hour of capacity is in exactly one of these. The last five are what was held. #}
{% macro held_buckets() %}{{ return(['idle', 'under_used', 'lost', 'unobserved', 'productive']) }}{% endmacro %}
{% macro buckets() %}{{ return(['down', 'unallocated'] + held_buckets()) }}{% endmacro %}

{# What was held: the sum of its buckets, which is never a little less than nothing, as a difference might be. #}
{% macro held_gpu_hours() -%}
    {% for bucket in held_buckets() %}{{ bucket }}_gpu_hours{{ ' + ' if not loop.last }}{% endfor %}
{%- endmacro %}

{# sum(x_gpu_hours) as x_gpu_hours, for each bucket. #}
{% macro sum_buckets(buckets) -%}
    {% for bucket in buckets %}sum({{ bucket }}_gpu_hours) as {{ bucket }}_gpu_hours{{ ', ' if not loop.last }}{% endfor %}
{%- endmacro %}

{# The buckets of each group of rows add up to its capacity, within a thousandth. #}
{% test ledger_closes(model, by) %}
select {{ by | join(', ') }}
from {{ model }}
group by {{ by | join(', ') }}
having
    abs(
        sum({% for bucket in buckets() %}{{ bucket }}_gpu_hours{{ ' + ' if not loop.last }}{% endfor %})
        - sum(capacity_gpu_hours)
    ) > 0.001 * sum(capacity_gpu_hours)
{% endtest %}
