-- Every time that a job was run, of all sources but PAI; one row for a job that never was.

{% for name in run_sources() -%}
    select * from {{ ref(name ~ '_runs') }}
    {%- if not loop.last %}
        union all
    {% endif %}
{%- endfor %}
