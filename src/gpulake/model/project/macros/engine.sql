{# Whatever differs between engines is here, and dispatched. Models use only these and plain SQL. #}

{# A 63-bit key of text columns: joins on it are several times faster than on long hex ids. #}
{% macro surrogate_key(columns) %}{{ adapter.dispatch('surrogate_key', 'gpulake')(columns) }}{% endmacro %}
{% macro default__surrogate_key(columns) %}cast(hash({{ columns | join(', ') }}) >> 1 as bigint){% endmacro %}

{# Seconds since the epoch to an instant, and back. #}
{% macro instant(seconds) %}{{ adapter.dispatch('instant', 'gpulake')(seconds) }}{% endmacro %}
{% macro default__instant(seconds) %}to_timestamp({{ seconds }}){% endmacro %}
{% macro seconds_of(instant) %}{{ adapter.dispatch('seconds_of', 'gpulake')(instant) }}{% endmacro %}
{% macro default__seconds_of(instant) %}epoch({{ instant }}){% endmacro %}

{# The calendar day of an instant in a named time zone, and the instant at which such a day begins. #}
{% macro local_day(instant, zone) %}{{ adapter.dispatch('local_day', 'gpulake')(instant, zone) }}{% endmacro %}
{% macro default__local_day(instant, zone) %}cast(timezone({{ zone }}, {{ instant }}) as date){% endmacro %}
{% macro day_begin(day, zone) %}{{ adapter.dispatch('day_begin', 'gpulake')(day, zone) }}{% endmacro %}
{% macro default__day_begin(day, zone) %}timezone({{ zone }}, cast({{ day }} as timestamp)){% endmacro %}
{% macro next_day(day) %}{{ adapter.dispatch('next_day', 'gpulake')(day) }}{% endmacro %}
{% macro default__next_day(day) %}cast({{ day }} + 1 as date){% endmacro %}

{# One row for each day from the first to the last. #}
{% macro each_day(first, last) %}{{ adapter.dispatch('each_day', 'gpulake')(first, last) }}{% endmacro %}
{% macro default__each_day(first, last) -%}
    cast(unnest(generate_series({{ first }}, {{ last }}, interval 1 day)) as date)
{%- endmacro %}

{# A number, or nothing where the source says NaN or infinity. #}
{% macro finite(number) %}{{ adapter.dispatch('finite', 'gpulake')(number) }}{% endmacro %}
{% macro default__finite(number) %}case when isfinite({{ number }}) then {{ number }} end{% endmacro %}

{# The quantile of a column, interpolated. #}
{% macro quantile(number, share) %}{{ adapter.dispatch('quantile', 'gpulake')(number, share) }}{% endmacro %}
{% macro default__quantile(number, share) %}quantile_cont({{ number }}, {{ share }}){% endmacro %}

{# The first group of a pattern in a text, or nothing. #}
{% macro extract_text(column, pattern) %}{{ adapter.dispatch('extract_text', 'gpulake')(column, pattern) }}{% endmacro %}
{% macro default__extract_text(column, pattern) -%}
    nullif(regexp_extract({{ column }}, '{{ pattern }}', 1), '')
{%- endmacro %}

{# A number or a date in a text, or nothing. #}
{% macro try_number(column) %}{{ adapter.dispatch('try_number', 'gpulake')(column) }}{% endmacro %}
{% macro default__try_number(column) %}try_cast({{ column }} as double){% endmacro %}
