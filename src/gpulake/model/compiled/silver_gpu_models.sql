-- The catalogue, with what landed tables of specifications print beside it, and the models that only these have.

with catalogue as (

    select * from "landed"."main"."known_gpu_models"

),

specifications as (

    
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

meant as (

    select
        names."Product_Name",
        models.gpu_model
    from (
        select
            "Product_Name",
            regexp_replace(trim(regexp_replace(lower("Product_Name"), '[^a-z0-9]+', ' ', 'g')), '([0-9]) gb\b', '\1gb', 'g')
                as words
        from (select distinct "Product_Name" from specifications where "Product_Name" is not null) as distinct_names
    ) as names
    inner join "landed"."main"."known_gpu_models" as models
        on
            not regexp_matches(names.words, models.part)
            and regexp_matches(regexp_replace(names.words, models.prefix, '', 'g'), models.pattern)
    qualify row_number() over (partition by names."Product_Name" order by models.place asc) = 1

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
            try_cast(nullif(regexp_extract("Memory", '([0-9.]+) [GM]B', 1), '') as double)
            * case when "Memory" like '% GB%' then 1073741824 else 1048576 end as bigint
        ) as memory_bytes,
        nullif(regexp_extract("Memory", '[GM]B(?: x[0-9]+)?, ([A-Za-z0-9]+)', 1), '') as memory_kind,
        cast(try_cast(nullif(regexp_extract("Memory", '([0-9]+) bit', 1), '') as double) as bigint) as memory_bus_bits,
        try_cast(nullif(regexp_extract("GPU_clock", '([0-9.]+) MHz', 1), '') as double) * 1000000 as core_clock_hertz,
        try_cast(nullif(regexp_extract("Memory_clock", '([0-9.]+) MHz', 1), '') as double) * 1000000 as memory_clock_hertz,
        cast(try_cast(nullif(regexp_extract("Shaders_TMUs_ROPs", '^ *([0-9]+)', 1), '') as double) as bigint) as shaders
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

-- test: in_range_silver_gpu_models_0__busy_watts(busy_watts) error
where false
    or busy_watts < 0

-- test: in_range_silver_gpu_models_0__idle_watts(idle_watts) error
where false
    or idle_watts < 0

-- test: in_range_silver_gpu_models_0__memory_bytes(memory_bytes) error
where false
    or memory_bytes < 0

-- test: in_range_silver_gpu_models_0__usd_per_hour(usd_per_hour) error
where false
    or usd_per_hour < 0

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
