{# Of each name of a GPU type, the model that it means: as core/gpu_models.py does it. Names that mean none have no row.
   Give few rows: each name is compared with each model. #}
{% macro gpu_models_of(relation, name) -%}
    select
        names.{{ name }},
        models.gpu_model
    from (
        select
            {{ name }},
            {{ replaced("trim(" ~ replaced("lower(" ~ name ~ ")", "'[^a-z0-9]+'", "' '") ~ ")", "'([0-9]) gb\\b'", "'\\1gb'") }}
                as words
        from (select distinct {{ name }} from {{ relation }} where {{ name }} is not null) as distinct_names
    ) as names
    inner join {{ source('landed', 'known_gpu_models') }} as models
        on
            not {{ has_match("names.words", "models.part") }}
            and {{ has_match(replaced("names.words", "models.prefix", "''"), "models.pattern") }}
    qualify row_number() over (partition by names.{{ name }} order by models.place asc) = 1
{%- endmacro %}
