{# The words of the sources, in ours. #}

{% macro pai_status(column) -%}
    case {{ column }}
        when 'Terminated' then 'succeeded'
        when 'Failed' then 'failed'
        when 'Interrupted' then 'interrupted'
        when 'Running' then 'running'
        when 'Waiting' then 'waiting'
        else 'unknown'
    end
{%- endmacro %}

{# An instant of the PAI trace; it writes 0 where it knows none. #}
{% macro pai_instant(column) %}{{ instant(finite('nullif(' ~ column ~ ', 0)')) }}{% endmacro %}

{% macro gibibytes(column) %}cast({{ finite(column) }} * 1073741824 as bigint){% endmacro %}

{# All that a status can be, the most final one first: of two rows about one thing the more final one counts. #}
{% macro statuses() -%}
    {{ return(['succeeded', 'failed', 'node_fail', 'timeout', 'interrupted', 'cancelled', 'running', 'waiting', 'unknown']) }}
{%- endmacro %}
{% macro status_rank(column) -%}
    case {{ column }}{% for status in statuses() %} when '{{ status }}' then {{ loop.index }}{% endfor %} end
{%- endmacro %}

{# What was held for nothing. A cancelled attempt is not among it: people stop jobs that have served. #}
{% macro is_lost(column) %}{{ column }} in ('failed', 'interrupted', 'timeout', 'node_fail'){% endmacro %}

{# The number of the hour in which a second lies. #}
{% macro hour_number(seconds, shift) %}cast(floor(({{ seconds }} + {{ shift }}) / 3600) as bigint){% endmacro %}

{# An instant, unless it lies on the wrong side of another that is known. #}
{% macro not_after(instant, bound) %}case when {{ bound }} is null or {{ instant }} <= {{ bound }} then {{ instant }} end{% endmacro %}
{% macro not_before(instant, bound) %}case when {{ instant }} >= {{ bound }} then {{ instant }} end{% endmacro %}

{# Stands for all machines of a cluster, where a job's own machine is not known. #}
{% macro pool_key(cluster) %}{{ surrogate_key([cluster, "'(all machines)'"]) }}{% endmacro %}

{# The part of an interval, in hours, that lies in a numbered hour; its ends in seconds since the epoch. #}
{% macro hours_within(begin, end, number, shift) -%}
    (least({{ end }}, {{ number }} * 3600 + 3600 - {{ shift }}) - greatest({{ begin }}, {{ number }} * 3600 - {{ shift }})) / 3600
{%- endmacro %}

{# How many GPUs are asked for, all instances together; rounded, since sums of fractions come out a little off. #}
{% macro request_size(gpus) -%}
    case
        when round({{ gpus }}, 3) < 0.25 then '1: below 0.25'
        when round({{ gpus }}, 3) < 0.5 then '2: 0.25 to 0.5'
        when round({{ gpus }}, 3) < 1 then '3: 0.5 to 1'
        when round({{ gpus }}, 3) = 1 then '4: 1'
        when round({{ gpus }}, 3) < 8 then '5: above 1, below 8'
        when round({{ gpus }}, 3) < 64 then '6: 8 to 63'
        else '7: 64 and more'
    end
{%- endmacro %}
