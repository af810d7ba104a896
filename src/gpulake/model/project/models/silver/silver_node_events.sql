with told as (

    select distinct
        node as node_id,
        host_id,
        {{ instant('ts_ms / 1000') }} as happened_at,
        kind,
        subject,
        code,
        pid,
        message,
        source
    from {{ source('landed', 'bronze_node_events') }}

),

nodes as (

    select * from {{ ref('silver_nodes') }}

),

final as (

    select
        {{ surrogate_key([
            'told.node_id', 'told.host_id', 'told.happened_at', 'told.kind', 'told.subject', 'told.code', 'told.pid',
            'told.message', 'told.source'
        ]) }} as event_key,
        nodes.cluster_id,
        told.*
    from told
    left join nodes on told.node_id = nodes.node_id

)

select * from final
