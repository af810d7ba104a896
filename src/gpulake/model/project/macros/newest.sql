{# One row for each key: the same thing may stand in several landed files. Only what is repeated is sorted: nearly nothing.
   Whatever the order leaves open, all columns of the row settle, so that only rows that are the same can take each
   other's place: in which order files landed, or in which pieces, says nothing. #}
{% macro newest(relation, key, order_by) %}
    with keyed as not materialized (

        select
            *,
            {{ key }} as row_key
        from {{ relation }}

    ),

    repeated as (

        select row_key
        from keyed
        group by row_key
        having count(*) > 1

    )

    select * from keyed
    where row_key not in (select row_key from repeated)

    union all

    select * from keyed
    where row_key in (select row_key from repeated)
    qualify row_number() over (partition by row_key order by {{ order_by }}, {{ whole_row('keyed') }}) = 1
{% endmacro %}

{# A window of PAI is identified by its worker and its begin; without a worker, by its machine and its end as well. #}
{% macro window_key() -%}
    {%- set others = surrogate_key(['machine', 'end_time']) -%}
    {{ surrogate_key(['worker_name', 'start_time', 'case when worker_name is null then ' ~ others ~ ' end']) }}
{%- endmacro %}

{# The rows of one list: the one that is preferred if it has landed, else the first by name. Lists overlap. #}
{% macro chosen_list(relation, preferred) -%}
    (
        select *
        from {{ relation }}
        where
            list = (
                select coalesce(max(case when list = '{{ preferred }}' then list end), min(list))
                from {{ relation }}
            )
    )
{%- endmacro %}
