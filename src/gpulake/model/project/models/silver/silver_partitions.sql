with listed as (

    select
        *,
        coalesce(lower(cluster), {{ only_slurm_cluster() }}, 'slurm') as cluster_id
    from {{ source('landed', 'bronze_slurm_partitions') }}
    where asked_at is not null

),

once as (

    {{ newest(
        'listed',
        surrogate_key(['cluster_id', '"PartitionName"']),
        'asked_at desc, gpus desc nulls last'
    ) }}

),

final as (

    select
        cluster_id,
        "PartitionName" as partition_id,
        "State" as state,
        coalesce("Default" = 'YES', false) as is_default,
        node_names as nodes,
        cast("TotalNodes" as bigint) as machines,
        gpus,
        {{ span_seconds('"MaxTime"') }} as most_run_seconds,
        {{ span_seconds('"DefaultTime"') }} as usual_limit_seconds,
        "AllowAccounts" as allowed_accounts,
        "AllowQos" as allowed_qos,
        "QoS" as qos_id,
        cast("PriorityTier" as bigint) as priority_tier,
        asked_at as last_listed_at
    from once

)

select * from final
order by cluster_id, partition_id
