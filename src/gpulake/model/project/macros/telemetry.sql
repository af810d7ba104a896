{# Samples, and the time that they cover. #}

{# A sample covers the time until the next one of its subject, at most this many usual intervals, and never longer than
   this. #}
{% macro most_intervals() %}3{% endmacro %}
{% macro most_seconds() %}7200{% endmacro %}

{# The rows of a relation with covers_seconds, gap_seconds and what the next row says under other names. The usual interval
   is the median of the eleven around it, so that samples of several rates can follow each other. A gap of at most so
   many times the least of the eleven is so of their median as well: that is worked out for the few others only. #}
{% macro covering(relation, subject, later={}) %}
    {%- set moments = [] -%}
    {%- for place in range(-5, 7) -%}{%- do moments.append('moment_' ~ (place + 5)) -%}{%- endfor -%}
    {%- set gaps = [] -%}
    {%- for place in range(11) -%}{%- do gaps.append(moments[place + 1] ~ ' - ' ~ moments[place]) -%}{%- endfor -%}
    select
        * exclude ({{ moments | join(', ') }}),
        case
            when gap_seconds is null then 0
            when gap_seconds <= {{ most_intervals() }} * {{ earliest(gaps) }} then least(gap_seconds, {{ most_seconds() }})
            else least(gap_seconds, {{ most_intervals() }} * {{ median_of(gaps) }}, {{ most_seconds() }})
        end as covers_seconds
    from (
        select
            *,
            {{ gaps[5] }} as gap_seconds
        from (
            select
                *,
                {% for name, column in later.items() -%}
                    lead({{ column }}) over by_time as {{ name }},
                {% endfor -%}
                {% for place in range(-5, 7) -%}
                    {{ seconds_of(
                        'lag(sampled_at, ' ~ -place ~ ') over by_time' if place < 0
                        else 'lead(sampled_at, ' ~ place ~ ') over by_time' if place
                        else 'sampled_at'
                    ) }} as {{ moments[place + 5] }}{{ ',' if not loop.last }}
                {% endfor %}
            from {{ relation }}
            window by_time as (partition by {{ subject | join(', ') }} order by sampled_at)
        ) as followed
    ) as usual
{% endmacro %}

{# Increase of a counter since the previous sample; after a reset, its value. #}
{% macro growth(counter, before) -%}
    case when {{ counter }} >= {{ before }} then {{ counter }} - {{ before }} else {{ counter }} end
{%- endmacro %}

{# Lines about the death of one process within so many seconds tell of one kill; formats/kernel.py has the same. #}
{% macro same_kill_seconds() %}10{% endmacro %}

{# Upper limit per day; a larger value is implausible. #}
{% macro most_errors() %}1000000000000000{% endmacro %}

{# A rate between two samples of a counter; none where it went back. #}
{% macro rate(counter, before, seconds) -%}
    case when {{ counter }} >= {{ before }} and {{ seconds }} > 0 then ({{ counter }} - {{ before }}) / {{ seconds }} end
{%- endmacro %}

{# What a GPU may say, and the type that silver gives it. #}
{% macro gpu_measures() -%}
    {{ return([
        ['gpu_busy_ratio', 'double'], ['memory_busy_ratio', 'double'], ['encoder_busy_ratio', 'double'],
        ['decoder_busy_ratio', 'double'], ['sm_active_ratio', 'double'], ['sm_occupancy_ratio', 'double'],
        ['tensor_active_ratio', 'double'], ['dram_active_ratio', 'double'], ['graphics_active_ratio', 'double'],
        ['memory_used_bytes', 'bigint'], ['memory_total_bytes', 'bigint'], ['power_watts', 'double'],
        ['power_limit_watts', 'double'], ['energy_joules_total', 'double'], ['temperature_celsius', 'double'],
        ['memory_temperature_celsius', 'double'], ['slowdown_temperature_celsius', 'double'],
        ['sm_clock_hertz', 'bigint'], ['memory_clock_hertz', 'bigint'], ['clock_event_reasons', 'bigint'],
        ['power_violation_seconds_total', 'double'], ['thermal_violation_seconds_total', 'double'],
        ['ecc_corrected_total', 'bigint'], ['ecc_uncorrected_total', 'bigint'],
        ['ecc_corrected_lifetime_total', 'bigint'], ['ecc_uncorrected_lifetime_total', 'bigint'],
        ['remapped_rows_correctable', 'bigint'], ['remapped_rows_uncorrectable', 'bigint'], ['last_xid', 'bigint'],
        ['pcie_rx_bytes_per_second', 'double'], ['pcie_tx_bytes_per_second', 'double'],
        ['pcie_replays_total', 'bigint'], ['pcie_link_generation', 'bigint'], ['pcie_link_width', 'bigint'],
        ['nvlink_rx_bytes_per_second', 'double'], ['nvlink_tx_bytes_per_second', 'double'],
        ['nvlink_errors_total', 'bigint'], ['nvlink_links_active', 'bigint'], ['processes', 'bigint']
    ]) }}
{%- endmacro %}

{# The least and the most that a value can be, by the unit that its name ends with; formats/plausible.py has the same. #}
{% macro plausible_range(name) -%}
    {%- set ranges = [
        ['_ratio', '0', '1'], ['_celsius', '-40', '150'], ['_watts', '0', '20000'], ['_joules_total', '0', '1e13'],
        ['_hertz', '0', '2e10'], ['_per_second', '0', '1e13'], ['_bytes', '0', '1e17'], ['_seconds_total', '0', '1e12'],
        ['_total', '0', '9e18']
    ] -%}
    {%- set found = namespace(range=['0', '2147483631']) -%}
    {%- for unit, least, most in ranges if name.endswith(unit) and found.range[1] == '2147483631' -%}
        {%- set found.range = [least, most] -%}
    {%- endfor -%}
    {{ return(found.range) }}
{%- endmacro %}
{% macro is_plausible(name) -%}
    {{ name }} between {{ plausible_range(name)[0] }} and {{ plausible_range(name)[1] }}
{%- endmacro %}

{# Number of the named values that are present and impossible. #}
{% macro implausible_values(names) -%}
    {% for name in names -%}
        case when {{ name }} is not null and not ({{ is_plausible(name) }}) then 1 else 0 end{{ ' + ' if not loop.last }}
    {%- endfor %}
{%- endmacro %}

{# NVML's bits of throttle reasons. Idle (1) and settings of the owner are not throttling. #}
{% macro clock_reasons() -%}
    {{ return({
        'settings': 2 + 16 + 256, 'sw_power': 4, 'hw_slowdown': 8, 'sw_thermal': 32, 'hw_thermal': 64,
        'hw_power_brake': 128, 'power': 4 + 128, 'thermal': 32 + 64, 'hardware': 8 + 64 + 128,
        'throttled': 4 + 8 + 32 + 64 + 128
    }) }}
{%- endmacro %}
{% macro has_clock_reason(mask, reason) %}({{ mask }} & {{ clock_reasons()[reason] }}) != 0{% endmacro %}

{# A GPU with this much memory in use is held: a board without a process reserves less (an H200 615 MiB). #}
{% macro memory_of_a_user() %}1073741824{% endmacro %}

{# A number at the begin of what a tool prints, such as 35 % or (300Mhz); nothing for [N/A]. #}
{% macro printed_number(column) -%}
    {{ try_number(extract_text(column, '^\\(?(-?[0-9]+(\\.[0-9]+)?)')) }}
{%- endmacro %}

{# Of the columns that a source may write a field in, the first that has a number, in our unit. #}
{% macro printed_value(entry) -%}
    {%- set numbers = [] -%}
    {%- for column in entry[0] %}{% do numbers.append(printed_number(column)) %}{% endfor -%}
    {{ numbers[0] if numbers | length == 1 else 'coalesce(' ~ numbers | join(', ') ~ ')' }} * {{ entry[1] }}
{%- endmacro %}

{# Of the samples of a page, the one that a source writes a field as, in our unit. #}
{% macro sample_of(entry) -%}
    max(case when metric in ('{{ entry[0] | join("', '") }}') then value * {{ entry[1] }} end)
{%- endmacro %}

{# Whether a group has more than one value of these columns; counting distinct ones takes twice as long. #}
{% macro are_several(columns) -%}
    (
        {% for column in columns -%}
            coalesce(min({{ column }}) < max({{ column }}), false) or
        {% endfor -%}
        ({% for column in columns -%}
            max({{ column }}) is not null{{ ' and ' if not loop.last }}
        {%- endfor %})
    )
{%- endmacro %}

{# The number of a GPU in its host. #}
{% macro gpu_number(column) -%}
    case
        when {{ printed_number(column) }} between 0 and 2147483631 then cast({{ printed_number(column) }} as bigint)
    end
{%- endmacro %}

{# The name of a file without its ending, which stands for the node where nothing else does. #}
{% macro stem(file) %}{{ extract_text(file, '^(.+?)(\\.[A-Za-z]+)?$') }}{% endmacro %}

{# The node that a kernel log is of: n1 for n1.dmesg.log. #}
{% macro log_node(file) -%}
    {{ extract_text(file, '^(.+?)([._-](dmesg|kmsg|kern|kernel))?(\\.[A-Za-z]+)?$') }}
{%- endmacro %}

{# A PCI address as domain:bus:device, however many digits its domain has. #}
{% macro pci_address(column) -%}
    {{ extract_text('lower(' ~ column ~ ')', '([0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2})') }}
{%- endmacro %}

{# The number of the quarter of an hour in which an instant lies. #}
{% macro quarter_number(instant) %}cast(floor({{ seconds_of(instant) }} / 900) as bigint){% endmacro %}
