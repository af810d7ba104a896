-- Objects of Kubernetes with their cluster and the time at which they were listed.

select
    *,
    coalesce(lower(nullif(cluster, '')), 'kubernetes') as cluster_id,
    coalesce(snapshot_at, file_at) as seen_at
from "landed"."main"."bronze_kubernetes_objects"
