with specifications as (

    select * from {{ source('landed', 'bronze_machine_spec') }}

),

final as (

    select
        {{ surrogate_key(['machine']) }} as machine_key,
        'pai' as cluster_id,
        machine as machine_id,
        nullif(gpu_type, 'CPU') as gpu_type,
        cast({{ finite('cap_gpu') }} as bigint) as gpus,
        {{ finite('cap_cpu') }} as cores,
        {{ gibibytes('cap_mem') }} as memory_bytes
    from specifications
    qualify row_number() over (partition by machine order by cap_gpu desc) = 1

)

select * from final
