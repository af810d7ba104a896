{# Whatever differs between engines is here, and dispatched. Models use only these and plain SQL. #}

{# A 63-bit key of text columns: joins on it are several times faster than on long hex ids. #}
{% macro surrogate_key(columns) %}{{ adapter.dispatch('surrogate_key', 'gpulake')(columns) }}{% endmacro %}
{% macro default__surrogate_key(columns) %}cast(hash({{ columns | join(', ') }}) >> 1 as bigint){% endmacro %}

{# All columns of a row as one value, which can be put in an order. #}
{% macro whole_row(relation) %}{{ adapter.dispatch('whole_row', 'gpulake')(relation) }}{% endmacro %}
{% macro default__whole_row(relation) %}{{ relation }}{% endmacro %}

{# Seconds since the epoch to an instant, and back. #}
{% macro instant(seconds) %}{{ adapter.dispatch('instant', 'gpulake')(seconds) }}{% endmacro %}
{% macro default__instant(seconds) %}to_timestamp({{ seconds }}){% endmacro %}
{% macro seconds_of(instant) %}{{ adapter.dispatch('seconds_of', 'gpulake')(instant) }}{% endmacro %}
{# Three times as fast as epoch(), which goes through the calendar. #}
{% macro default__seconds_of(instant) %}(epoch_us({{ instant }}) / 1e6){% endmacro %}

{# The calendar day of an instant in a named time zone, and the instant at which such a day begins. #}
{% macro local_day(instant, zone) %}{{ adapter.dispatch('local_day', 'gpulake')(instant, zone) }}{% endmacro %}
{% macro default__local_day(instant, zone) %}cast(timezone({{ zone }}, {{ instant }}) as date){% endmacro %}
{% macro day_begin(day, zone) %}{{ adapter.dispatch('day_begin', 'gpulake')(day, zone) }}{% endmacro %}
{% macro default__day_begin(day, zone) %}timezone({{ zone }}, cast({{ day }} as timestamp)){% endmacro %}
{% macro next_day(day) %}{{ adapter.dispatch('next_day', 'gpulake')(day) }}{% endmacro %}
{% macro default__next_day(day) %}cast({{ day }} + 1 as date){% endmacro %}

{# How far the clocks of a zone are ahead of the hours of UTC, in seconds within the hour: 1800 for India. #}
{% macro hour_shift_seconds(instant, zone) %}{{ adapter.dispatch('hour_shift_seconds', 'gpulake')(instant, zone) }}{% endmacro %}
{% macro default__hour_shift_seconds(instant, zone) -%}
    cast(epoch(timezone({{ zone }}, {{ instant }})) - epoch({{ instant }}) + 86400 as bigint) % 3600
{%- endmacro %}

{# The instant of a naive local time in a named zone. The engine is five times as fast in a zone that is the same in all
   rows: give the usual one, of a table of one row. #}
{% macro instant_of_local(local_time, zone, usual_zone) -%}
    {{ adapter.dispatch('instant_of_local', 'gpulake')(local_time, zone, usual_zone) }}
{%- endmacro %}
{% macro default__instant_of_local(local_time, zone, usual_zone) -%}
    case
        when {{ zone }} = {{ usual_zone }} then timezone({{ usual_zone }}, {{ local_time }})
        else timezone({{ zone }}, {{ local_time }})
    end
{%- endmacro %}

{# The naive local time of an instant in a named zone. #}
{% macro local_time(instant, zone) %}{{ adapter.dispatch('local_time', 'gpulake')(instant, zone) }}{% endmacro %}
{% macro default__local_time(instant, zone) %}timezone({{ zone }}, {{ instant }}){% endmacro %}

{# The earlier of two instants that a naive local time may stand for, where clocks were set back or forward; nothing where
   it can only be the one that `instant_of_local` gives. The offset is that of the day before, or of the day after. #}
{% macro earlier_instant_of_local(local_time, instant, zone) -%}
    {{ adapter.dispatch('earlier_instant_of_local', 'gpulake')(local_time, instant, zone) }}
{%- endmacro %}
{% macro default__earlier_instant_of_local(local_time, instant, zone) -%}
    {%- set earlier -%}
        least(
            timezone({{ zone }}, {{ local_time }} - interval 1 day) + interval 24 hour,
            timezone({{ zone }}, {{ local_time }} + interval 1 day) - interval 24 hour
        )
    {%- endset -%}
    case
        when
            {{ earlier }} < {{ instant }}
            and (
                timezone({{ zone }}, {{ earlier }}) = {{ local_time }} or timezone({{ zone }}, {{ instant }}) != {{ local_time }}
            )
            then {{ earlier }}
    end
{%- endmacro %}

{# One row for each whole number from the first up to, and without, the last. #}
{% macro each_number(first, last) %}{{ adapter.dispatch('each_number', 'gpulake')(first, last) }}{% endmacro %}
{% macro default__each_number(first, last) %}unnest(range({{ first }}, {{ last }})){% endmacro %}

{# Days since the epoch. #}
{% macro day_number(day) %}{{ adapter.dispatch('day_number', 'gpulake')(day) }}{% endmacro %}
{% macro default__day_number(day) %}cast({{ day }} - date '1970-01-01' as bigint){% endmacro %}

{# One row for each day from the first to the last. #}
{% macro each_day(first, last) %}{{ adapter.dispatch('each_day', 'gpulake')(first, last) }}{% endmacro %}
{% macro default__each_day(first, last) -%}
    cast(unnest(generate_series({{ first }}, {{ last }}, interval 1 day)) as date)
{%- endmacro %}

{# An instant some seconds after another. #}
{% macro later(instant, seconds) %}{{ adapter.dispatch('later', 'gpulake')(instant, seconds) }}{% endmacro %}
{% macro default__later(instant, seconds) %}{{ instant }} + to_seconds({{ seconds }}){% endmacro %}

{# The earliest and the latest of several instants or numbers, of which any may be unknown. #}
{% macro earliest(instants) %}{{ adapter.dispatch('earliest', 'gpulake')(instants) }}{% endmacro %}
{% macro default__earliest(instants) %}least({{ instants | join(', ') }}){% endmacro %}
{% macro latest(instants) %}{{ adapter.dispatch('latest', 'gpulake')(instants) }}{% endmacro %}
{% macro default__latest(instants) %}greatest({{ instants | join(', ') }}){% endmacro %}

{# A number, or nothing where the source says NaN or infinity. #}
{% macro finite(number) %}{{ adapter.dispatch('finite', 'gpulake')(number) }}{% endmacro %}
{% macro default__finite(number) %}case when isfinite({{ number }}) then {{ number }} end{% endmacro %}

{# The quantile of a column, interpolated. #}
{% macro quantile(number, share) %}{{ adapter.dispatch('quantile', 'gpulake')(number, share) }}{% endmacro %}
{% macro default__quantile(number, share) %}quantile_cont({{ number }}, {{ share }}){% endmacro %}

{# Several quantiles of a column as one list, since each of them alone would gather all its numbers again; and the one at
   a place of that list, from 1 on. #}
{% macro quantiles(number, shares) %}{{ adapter.dispatch('quantiles', 'gpulake')(number, shares) }}{% endmacro %}
{% macro default__quantiles(number, shares) %}quantile_cont({{ number }}, [{{ shares | join(', ') }}]){% endmacro %}
{% macro item(list, place) %}{{ adapter.dispatch('item', 'gpulake')(list, place) }}{% endmacro %}
{% macro default__item(list, place) %}{{ list }}[{{ place }}]{% endmacro %}

{# The first group of a pattern in a text, or nothing. #}
{% macro extract_text(column, pattern) %}{{ adapter.dispatch('extract_text', 'gpulake')(column, pattern) }}{% endmacro %}
{% macro default__extract_text(column, pattern) -%}
    nullif(regexp_extract({{ column }}, '{{ pattern }}', 1), '')
{%- endmacro %}

{# Whether a pattern is found in a text; and the text with what every match of a pattern was replaced. #}
{% macro has_match(text, pattern) %}{{ adapter.dispatch('has_match', 'gpulake')(text, pattern) }}{% endmacro %}
{% macro default__has_match(text, pattern) %}regexp_matches({{ text }}, {{ pattern }}){% endmacro %}
{% macro replaced(text, pattern, by) %}{{ adapter.dispatch('replaced', 'gpulake')(text, pattern, by) }}{% endmacro %}
{% macro default__replaced(text, pattern, by) %}regexp_replace({{ text }}, {{ pattern }}, {{ by }}, 'g'){% endmacro %}

{# A number or a date in a text, or nothing. #}
{% macro try_number(column) %}{{ adapter.dispatch('try_number', 'gpulake')(column) }}{% endmacro %}
{% macro default__try_number(column) %}try_cast({{ column }} as double){% endmacro %}

{# One row for each item of a text with commas between them. #}
{% macro each_item(column) %}{{ adapter.dispatch('each_item', 'gpulake')(column) }}{% endmacro %}
{% macro default__each_item(column) %}unnest(string_split({{ column }}, ',')){% endmacro %}

{# Of items such as folder/name, the names under a folder, with commas between them; nothing where there are none. And how
   many items a text has. #}
{% macro items_under(column, folder) %}{{ adapter.dispatch('items_under', 'gpulake')(column, folder) }}{% endmacro %}
{% macro default__items_under(column, folder) -%}
    nullif(
        array_to_string(
            [
                substr(place, length({{ folder }}) + 2)
                for place in string_split({{ column }}, ',')
                if starts_with(place, {{ folder }} || '/')
            ],
            ','
        ),
        ''
    )
{%- endmacro %}
{% macro count_of_items(column) %}{{ adapter.dispatch('count_of_items', 'gpulake')(column) }}{% endmacro %}
{% macro default__count_of_items(column) %}len(string_split({{ column }}, ',')){% endmacro %}

{# JSON: what an object has under a name, a number, and the sum and the count of an object's numbers; nothing where it is
   not that. #}
{% macro json_member(json, name) %}{{ adapter.dispatch('json_member', 'gpulake')(json, name) }}{% endmacro %}
{% macro default__json_member(json, name) -%}
    try_cast(try_cast({{ json }} as json) as map(varchar, json))[{{ name }}]
{%- endmacro %}
{% macro json_number(json) %}{{ adapter.dispatch('json_number', 'gpulake')(json) }}{% endmacro %}
{% macro default__json_number(json) %}try_cast({{ json }} as double){% endmacro %}
{% macro json_sum(json) %}{{ adapter.dispatch('json_sum', 'gpulake')(json) }}{% endmacro %}
{% macro default__json_sum(json) -%}
    list_sum(map_values(try_cast({{ json }} as map(varchar, double))))
{%- endmacro %}
{% macro json_count(json) %}{{ adapter.dispatch('json_count', 'gpulake')(json) }}{% endmacro %}
{% macro default__json_count(json) %}cardinality(try_cast({{ json }} as map(varchar, double))){% endmacro %}

{# The same of the objects that the members of an object have under a name, all together. #}
{% macro json_sum_within(json, name) %}{{ adapter.dispatch('json_sum_within', 'gpulake')(json, name) }}{% endmacro %}
{% macro default__json_sum_within(json, name) -%}
    list_sum([
        list_sum(map_values(try_cast(json_extract(member, '$."{{ name }}"') as map(varchar, double))))
        for member in map_values(try_cast(try_cast({{ json }} as json) as map(varchar, json)))
    ])
{%- endmacro %}

{# What a JSON object of texts has under a name. #}
{% macro json_text(json, name) %}{{ adapter.dispatch('json_text', 'gpulake')(json, name) }}{% endmacro %}
{% macro default__json_text(json, name) %}json_extract_string({{ json }}, '$."{{ name }}"'){% endmacro %}

{# The number of a text in hex, such as 0x0000000000000004. #}
{% macro hex_number(column) %}{{ adapter.dispatch('hex_number', 'gpulake')(column) }}{% endmacro %}
{% macro default__hex_number(column) %}try_cast({{ column }} as bigint){% endmacro %}

{# The median of a column, also over a window. #}
{% macro median(number) %}{{ adapter.dispatch('median', 'gpulake')(number) }}{% endmacro %}
{% macro default__median(number) %}median({{ number }}){% endmacro %}

{# The median of several numbers of a row, of which any may be unknown. #}
{% macro median_of(numbers) %}{{ adapter.dispatch('median_of', 'gpulake')(numbers) }}{% endmacro %}
{% macro default__median_of(numbers) %}list_median([{{ numbers | join(', ') }}]){% endmacro %}

{# The texts of the rows of a group, in the order of a column. #}
{% macro joined_texts(column, order_by) %}{{ adapter.dispatch('joined_texts', 'gpulake')(column, order_by) }}{% endmacro %}
{% macro default__joined_texts(column, order_by) %}string_agg({{ column }}, ', ' order by {{ order_by }}){% endmacro %}

{# One row for each name of a JSON object. #}
{% macro each_json_name(json) %}{{ adapter.dispatch('each_json_name', 'gpulake')(json) }}{% endmacro %}
{% macro default__each_json_name(json) %}unnest(json_keys({{ json }})){% endmacro %}

{# The instant of a text in ISO 8601 with its offset, or nothing. #}
{% macro try_instant(column) %}{{ adapter.dispatch('try_instant', 'gpulake')(column) }}{% endmacro %}
{% macro default__try_instant(column) %}try_cast({{ column }} as timestamptz){% endmacro %}
