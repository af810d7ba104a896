with listed as (

    select
        *,
        coalesce(lower(cluster), (
        select case when count(distinct lower("Cluster")) = 1 then max(lower("Cluster")) end
        from "landed"."main"."bronze_slurm_jobs"
    ), 'slurm') as cluster_id
    from "landed"."main"."bronze_slurm_partitions"
    where asked_at is not null

),

once as (

    
    with keyed as not materialized (

        select
            *,
            cast(hash(cluster_id, "PartitionName") >> 1 as bigint) as row_key
        from listed

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
    qualify row_number() over (partition by row_key order by asked_at desc, gpus desc nulls last, keyed) = 1


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
        coalesce(
        try_cast("MaxTime" as double) * 60,
        coalesce(try_cast(nullif(regexp_extract("MaxTime", '^([0-9]+)-', 1), '') as double), 0) * 86400
        + try_cast(nullif(regexp_extract("MaxTime", '([0-9]+):[0-9]+:[0-9]+$', 1), '') as double) * 3600
        + try_cast(nullif(regexp_extract("MaxTime", '([0-9]+):[0-9]+$', 1), '') as double) * 60
        + try_cast(nullif(regexp_extract("MaxTime", ':([0-9]+)$', 1), '') as double)
    ) as most_run_seconds,
        coalesce(
        try_cast("DefaultTime" as double) * 60,
        coalesce(try_cast(nullif(regexp_extract("DefaultTime", '^([0-9]+)-', 1), '') as double), 0) * 86400
        + try_cast(nullif(regexp_extract("DefaultTime", '([0-9]+):[0-9]+:[0-9]+$', 1), '') as double) * 3600
        + try_cast(nullif(regexp_extract("DefaultTime", '([0-9]+):[0-9]+$', 1), '') as double) * 60
        + try_cast(nullif(regexp_extract("DefaultTime", ':([0-9]+)$', 1), '') as double)
    ) as usual_limit_seconds,
        "AllowAccounts" as allowed_accounts,
        "AllowQos" as allowed_qos,
        "QoS" as qos_id,
        cast("PriorityTier" as bigint) as priority_tier,
        asked_at as last_listed_at
    from once

)

select * from final
order by cluster_id, partition_id

-- test: a_partition_is_listed_once() error
select cluster_id, partition_id
from "lake"."main"."silver_partitions"
group by cluster_id, partition_id
having count(*) > 1

-- test: in_range_silver_partitions_0__gpus(gpus) error
where false
    or gpus < 0

-- test: in_range_silver_partitions_0__machines(machines) error
where false
    or machines < 0

-- test: not_null_silver_partitions_cluster_id(cluster_id) error
where cluster_id is null

-- test: not_null_silver_partitions_is_default(is_default) error
where is_default is null

-- test: not_null_silver_partitions_last_listed_at(last_listed_at) error
where last_listed_at is null

-- test: not_null_silver_partitions_partition_id(partition_id) error
where partition_id is null

-- test: not_null_silver_partitions_state(state) error
where state is null
