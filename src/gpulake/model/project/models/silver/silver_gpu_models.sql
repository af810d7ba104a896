with specifications as (

    {{ newest(
        source('landed', 'bronze_gpu_specs'), surrogate_key(['"Product_Name"']), '"Released" desc nulls last'
    ) }}

),

final as (

    select
        "Product_Name" as gpu_model,
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
    from specifications

)

select * from final
