-- The attempts of every source but PAI, which numbers its own: millions have no other of their instance.

{% for name in attempt_sources() if name != 'pai' -%}
    select * from {{ ref(name ~ '_attempts') }}
    {%- if not loop.last %}
        union all
    {% endif %}
{%- endfor %}
