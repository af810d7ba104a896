{# The words of the trace, in ours. #}

{% macro trace_time_zone() %}'Asia/Shanghai'{% endmacro %}

{% macro trace_cluster() %}'pai'{% endmacro %}

{% macro canonical_status(column) -%}
    case {{ column }}
        when 'Terminated' then 'succeeded'
        when 'Failed' then 'failed'
        when 'Interrupted' then 'interrupted'
        when 'Running' then 'running'
        when 'Waiting' then 'waiting'
        else 'unknown'
    end
{%- endmacro %}

{# An instant of the trace; the source writes 0 where it knows none. #}
{% macro trace_instant(column) %}{{ instant(finite('nullif(' ~ column ~ ', 0)')) }}{% endmacro %}

{% macro gibibytes(column) %}cast({{ finite(column) }} * 1073741824 as bigint){% endmacro %}
