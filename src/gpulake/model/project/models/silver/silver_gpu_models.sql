-- The catalogue, with what landed tables of specifications print beside it, and the models that only these have.

with catalogue as (

    select * from {{ source('landed', 'known_gpu_models') }}

),

specifications as (

    {{ newest(
        source('landed', 'bronze_gpu_specs'), surrogate_key(['"Product_Name"']), '"Released" desc nulls last'
    ) }}

),

meant as (

    {{ gpu_models_of('specifications', '"Product_Name"') }}

),

named as (

    select
        specifications.*,
        coalesce(meant.gpu_model, specifications."Product_Name") as gpu_model
    from specifications
    left join meant on specifications."Product_Name" = meant."Product_Name"

),

printed as (

    select
        gpu_model,
        "GPU_Chip" as chip,
        "Released" as released,
        "Bus" as bus,
        cast(
            {{ try_number(extract_text('"Memory"', '([0-9.]+) [GM]B')) }}
            * case when "Memory" like '% GB%' then 1073741824 else 1048576 end as bigint
        ) as memory_bytes,
        {{ extract_text('"Memory"', '[GM]B(?: x[0-9]+)?, ([A-Za-z0-9]+)') }} as memory_kind,
        cast({{ try_number(extract_text('"Memory"', '([0-9]+) bit')) }} as bigint) as memory_bus_bits,
        {{ try_number(extract_text('"GPU_clock"', '([0-9.]+) MHz')) }} * 1000000 as core_clock_hertz,
        {{ try_number(extract_text('"Memory_clock"', '([0-9.]+) MHz')) }} * 1000000 as memory_clock_hertz,
        cast({{ try_number(extract_text('"Shaders_TMUs_ROPs"', '^ *([0-9]+)')) }} as bigint) as shaders
    from named
    qualify row_number() over (partition by gpu_model order by "Product_Name" asc) = 1

),

final as (

    select
        coalesce(catalogue.gpu_model, printed.gpu_model) as gpu_model,
        printed.chip,
        printed.released,
        printed.bus,
        coalesce(catalogue.memory_bytes, printed.memory_bytes) as memory_bytes,
        printed.memory_kind,
        printed.memory_bus_bits,
        printed.core_clock_hertz,
        printed.memory_clock_hertz,
        printed.shaders,
        catalogue.busy_watts,
        catalogue.idle_watts,
        catalogue.fp16_teraflops,
        catalogue.bf16_teraflops,
        catalogue.fp8_teraflops,
        catalogue.usd_per_hour,
        catalogue.source,
        catalogue.idle_source,
        catalogue.price_source
    from catalogue
    full join printed on catalogue.gpu_model = printed.gpu_model

)

select * from final
order by gpu_model
