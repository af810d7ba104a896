-- The attempts of every source.

{% for name in attempt_sources() -%}
    select * from {{ ref(name ~ '_attempts') }}
    {%- if not loop.last %}
        union all
    {% endif %}
{%- endfor %}
