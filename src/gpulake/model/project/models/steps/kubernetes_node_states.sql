-- Nodes of Kubernetes by snapshot. One that is not ready is down; one that takes no new pods is so once it runs none
-- that holds GPUs.

with nodes as (

    select * from {{ ref('kubernetes_rows') }}
    where kind = 'Node'

),

busy as (

    select distinct
        cluster_id,
        node,
        seen_at
    from {{ ref('kubernetes_rows') }}
    where kind = 'Pod' and state in ('Pending', 'Running') and gpu_devices + gpu_shares > 0

),

judged as (

    select
        nodes.*,
        coalesce(nodes.state in ('False', 'Unknown'), false) as is_unready,
        (coalesce(nodes.unschedulable, false) or nodes.taints is not null) and busy.node is null as is_drained
    from nodes
    left join busy on nodes.cluster_id = busy.cluster_id and nodes.name = busy.node and nodes.seen_at = busy.seen_at

)

select
    cluster_id,
    {{ machine_key('cluster_id', 'name') }} as machine_key,
    seen_at,
    is_unready or is_drained as is_down,
    case when is_drained and not is_unready then taints_since else state_since end as since_at,
    case
        when is_unready then coalesce(reason, 'NotReady')
        when is_drained then coalesce(taints, 'unschedulable')
    end as reason
from judged
