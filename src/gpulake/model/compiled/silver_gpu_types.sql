-- A name that gpulake.toml has counts as it is; any other as what is known of its model.

with machines as (

    select * from "lake"."main"."silver_machines"

),

sampled as (

    select * from "lake"."main"."gold_idle_gpus_daily"

),

nodes as (

    select * from "lake"."main"."silver_nodes"

),

tasks as (

    select * from "lake"."main"."silver_tasks"

),

ledger as (

    select * from "lake"."main"."gold_ledger_hourly"

),

known as (

    select * from "landed"."main"."known_gpu_types"

),

catalogue as (

    select * from "landed"."main"."known_gpu_models"

),

names as (

    select gpu_type
    from machines
    where gpu_type is not null

    union

    select gpu_name as gpu_type
    from nodes
    where gpu_name is not null

    union

    select gpu_name as gpu_type
    from sampled
    where gpu_name is not null

    union

    select gpu_type
    from tasks
    where gpu_type is not null

    union

    select gpu_type
    from ledger
    where gpu_type is not null

),

meant as (

    select
        names.gpu_type,
        models.gpu_model
    from (
        select
            gpu_type,
            regexp_replace(trim(regexp_replace(lower(gpu_type), '[^a-z0-9]+', ' ', 'g')), '([0-9]) gb\b', '\1gb', 'g')
                as words
        from (select distinct gpu_type from names where gpu_type is not null) as distinct_names
    ) as names
    inner join "landed"."main"."known_gpu_models" as models
        on
            not regexp_matches(names.words, models.part)
            and regexp_matches(regexp_replace(names.words, models.prefix, '', 'g'), models.pattern)
    qualify row_number() over (partition by names.gpu_type order by models.place asc) = 1

),

by_model as (

    select *
    from known
    where gpu_model is not null
    qualify row_number() over (partition by gpu_model order by gpu_type != gpu_model asc, gpu_type asc) = 1

),

final as (

    select
        names.gpu_type,
        meant.gpu_model,
        catalogue.memory_bytes,
        catalogue.fp16_teraflops,
        catalogue.bf16_teraflops,
        catalogue.fp8_teraflops,
        coalesce(known.busy_watts, by_model.busy_watts) as busy_watts,
        coalesce(known.idle_watts, by_model.idle_watts) as idle_watts,
        coalesce(known.price_per_hour, by_model.price_per_hour) as price_per_hour
    from names
    left join meant on names.gpu_type = meant.gpu_type
    left join catalogue on meant.gpu_model = catalogue.gpu_model
    left join known on names.gpu_type = known.gpu_type
    left join by_model on meant.gpu_model = by_model.gpu_model

)

select * from final
order by gpu_type

-- test: in_range_silver_gpu_types_0__busy_watts(busy_watts) error
where false
    or busy_watts < 0

-- test: in_range_silver_gpu_types_0__idle_watts(idle_watts) error
where false
    or idle_watts < 0

-- test: in_range_silver_gpu_types_0__memory_bytes(memory_bytes) error
where false
    or memory_bytes < 0

-- test: in_range_silver_gpu_types_0__price_per_hour(price_per_hour) error
where false
    or price_per_hour < 0

-- test: not_null_silver_gpu_types_gpu_type(gpu_type) error
where gpu_type is null

-- test: unique_silver_gpu_types_gpu_type(gpu_type) error
select
    gpu_type as unique_field,
    count(*) as n_records

from "lake"."main"."silver_gpu_types"
where gpu_type is not null
group by gpu_type
having count(*) > 1
