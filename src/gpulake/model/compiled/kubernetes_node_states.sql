-- Nodes of Kubernetes by snapshot, in the words of silver_machine_states. One that is not ready is out of service; one
-- that takes no new pods is drained once it runs none that holds GPUs. A node came back when its condition changed.

with nodes as (

    select * from __dbt__cte__kubernetes_rows
    where kind = 'Node'

),

busy as (

    select distinct
        cluster_id,
        node,
        seen_at
    from __dbt__cte__kubernetes_rows
    where kind = 'Pod' and state in ('Pending', 'Running') and gpu_devices + gpu_shares > 0

),

judged as (

    select
        nodes.*,
        case
            when nodes.state = 'False' then 'down'
            when nodes.state = 'Unknown' then 'not_responding'
            when coalesce(nodes.unschedulable, false) or nodes.taints is not null
                then case when busy.node is null then 'drained' else 'draining' end
            else 'up'
        end as condition
    from nodes
    left join busy on nodes.cluster_id = busy.cluster_id and nodes.name = busy.node and nodes.seen_at = busy.seen_at
    -- A node that was made anew under its name is the same machine.
    qualify
        row_number() over (
            partition by nodes.cluster_id, nodes.name, nodes.seen_at
            order by nodes."creationTimestamp" desc nulls last, nodes.uid asc, nodes.file asc
        ) = 1

)

select
    cluster_id,
    name as node,
    seen_at as asked_at,
    condition,
    case
        when condition in ('down', 'not_responding') then coalesce(reason, 'NotReady')
        when condition in ('drained', 'draining') then coalesce(taints, 'unschedulable')
    end as reason,
    cast(null as varchar) as reason_by,
    case
        when condition in ('down', 'not_responding') then state_since
        when condition in ('drained', 'draining') then taints_since
    end as reason_at,
    cast(null as timestamptz) as last_busy_at,
    case when condition = 'up' then state_since end as slurmd_started_at
from judged
