{# Each GPU-hour of capacity is in exactly one of these. docs/ledger.md defines them. #}
{% macro lost_buckets() %}{{ return(['failed', 'timed_out', 'interrupted']) }}{% endmacro %}
{% macro held_buckets() %}{{ return(['idle', 'under_used'] + lost_buckets() + ['unobserved', 'used']) }}{% endmacro %}
{% macro buckets() %}{{ return(['down', 'unknown', 'unallocated'] + held_buckets()) }}{% endmacro %}

{# Columns beside the hours of the buckets: bounds, and the part in inferred intervals. #}
{% macro held_notes() %}{{ return(['lost_at_least', 'inferred', 'inferred_lost']) }}{% endmacro %}

{# GPU-hours held: a sum of buckets, since a difference may be slightly below zero. #}
{% macro held_gpu_hours() %}{{ total_gpu_hours(held_buckets()) }}{% endmacro %}
{% macro lost_gpu_hours() %}{{ total_gpu_hours(lost_buckets()) }}{% endmacro %}
{% macro total_gpu_hours(buckets) -%}
    {% for bucket in buckets %}{{ bucket }}_gpu_hours{{ ' + ' if not loop.last }}{% endfor %}
{%- endmacro %}

{# sum(x_gpu_hours) as x_gpu_hours, for each bucket. #}
{% macro sum_buckets(buckets) -%}
    {% for bucket in buckets %}sum({{ bucket }}_gpu_hours) as {{ bucket }}_gpu_hours{{ ', ' if not loop.last }}{% endfor %}
{%- endmacro %}

{# x_gpu_hours, for each name; with what comes before it. #}
{% macro gpu_hour_columns(names, before='') -%}
    {% for name in names %}{{ before }}{{ name }}_gpu_hours{{ ', ' if not loop.last }}{% endfor %}
{%- endmacro %}

{# The bucket of a lost attempt by its status. A cancelled attempt is not lost: people stop jobs that are done. #}
{% macro lost_bucket(status) -%}
    case
        when {{ status }} in ('failed', 'node_fail') then 'failed'
        when {{ status }} = 'timeout' then 'timed_out'
        when {{ status }} = 'interrupted' then 'interrupted'
    end
{%- endmacro %}
{% macro is_lost(status) %}{{ status }} in ('failed', 'node_fail', 'timeout', 'interrupted'){% endmacro %}

{# What a piece of a holding has in a bucket, in GPU-hours. A piece has hours, of which some are lost; the others count by
   use. #}
{% macro piece_gpu_hours(bucket) -%}
    case
        {% if bucket in lost_buckets() %}when bucket = '{{ bucket }}' then lost_hours * gpus
        {% elif bucket == 'under_used' %}when use_bucket = 'used' then (hours - lost_hours) * (gpus - used_gpus)
        {% elif bucket == 'used' %}when use_bucket = 'used' then (hours - lost_hours) * used_gpus
        {% else %}when use_bucket = '{{ bucket }}' then (hours - lost_hours) * gpus
        {% endif %}else 0
    end
{%- endmacro %}
{% macro sum_pieces() -%}
    {% for bucket in held_buckets() %}
        sum({{ piece_gpu_hours(bucket) }}) as {{ bucket }}_gpu_hours,
    {% endfor %}
    sum(case when has_checkpoint then lost_hours * gpus else 0 end) as lost_at_least_gpu_hours,
    sum(case when is_inferred then hours * gpus else 0 end) as inferred_gpu_hours,
    sum(case when is_inferred then lost_hours * gpus else 0 end) as inferred_lost_gpu_hours
{%- endmacro %}

{# The columns of a holding that its pieces need. Within the time under observation, in seconds since the epoch. #}
{% macro piece_columns() -%}
    holdings.bucket,
    holdings.use_bucket,
    holdings.gpus,
    holdings.has_checkpoint,
    holdings.is_inferred,
    case when holdings.used_gpus is not null then least(holdings.used_gpus, holdings.gpus) end as used_gpus,
    clusters.hour_shift_seconds as shift,
    {{ seconds_of(latest(['holdings.held_from', 'clusters.observed_from'])) }} as begin_seconds,
    {{ seconds_of(earliest(['holdings.held_until', 'clusters.observed_until'])) }} as end_seconds,
    {{ seconds_of('coalesce(holdings.lost_from, holdings.held_until)') }} as lost_seconds
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
