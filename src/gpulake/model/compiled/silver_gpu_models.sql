with specifications as (

    
    with keyed as not materialized (

        select
            *,
            cast(hash("Product_Name") >> 1 as bigint) as row_key
        from "landed"."main"."bronze_gpu_specs"

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
    qualify row_number() over (partition by row_key order by "Released" desc nulls last, keyed) = 1


),

final as (

    select
        "Product_Name" as gpu_model,
        "GPU_Chip" as chip,
        "Released" as released,
        "Bus" as bus,
        cast(
            try_cast(nullif(regexp_extract("Memory", '([0-9.]+) [GM]B', 1), '') as double)
            * case when "Memory" like '% GB%' then 1073741824 else 1048576 end as bigint
        ) as memory_bytes,
        nullif(regexp_extract("Memory", '[GM]B(?: x[0-9]+)?, ([A-Za-z0-9]+)', 1), '') as memory_kind,
        cast(try_cast(nullif(regexp_extract("Memory", '([0-9]+) bit', 1), '') as double) as bigint) as memory_bus_bits,
        try_cast(nullif(regexp_extract("GPU_clock", '([0-9.]+) MHz', 1), '') as double) * 1000000 as core_clock_hertz,
        try_cast(nullif(regexp_extract("Memory_clock", '([0-9.]+) MHz', 1), '') as double) * 1000000 as memory_clock_hertz,
        cast(try_cast(nullif(regexp_extract("Shaders_TMUs_ROPs", '^ *([0-9]+)', 1), '') as double) as bigint) as shaders
    from specifications

)

select * from final

-- test: in_range_silver_gpu_models_0__memory_bytes(memory_bytes) error
where false
    or memory_bytes < 0

-- test: not_null_silver_gpu_models_gpu_model(gpu_model) error
where gpu_model is null

-- test: unique_silver_gpu_models_gpu_model(gpu_model) error
select
    gpu_model as unique_field,
    count(*) as n_records

from "lake"."main"."silver_gpu_models"
where gpu_model is not null
group by gpu_model
having count(*) > 1
