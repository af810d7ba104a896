-- What schedulers report of their nodes, a row for each node and report: whether it is out of service, and since when,
-- if the report says so. Add a source: union its step, with these columns.

select
    cluster_id,
    machine_key,
    seen_at,
    is_down,
    since_at,
    reason
from {{ ref('kubernetes_node_states') }}
