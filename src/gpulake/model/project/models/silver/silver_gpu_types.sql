-- A name that gpulake.toml has counts as it is; any other as what is known of its model.

with machines as (

    select * from {{ ref('silver_machines') }}

),

sampled as (

    select * from {{ ref('gold_idle_gpus_daily') }}

),

nodes as (

    select * from {{ ref('silver_nodes') }}

),

tasks as (

    select * from {{ ref('silver_tasks') }}

),

ledger as (

    select * from {{ ref('gold_ledger_hourly') }}

),

known as (

    select * from {{ source('landed', 'known_gpu_types') }}

),

catalogue as (

    select * from {{ source('landed', 'known_gpu_models') }}

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

    {{ gpu_models_of('names', 'gpu_type') }}

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
