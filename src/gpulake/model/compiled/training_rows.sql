-- What training runs logged. The same value may have landed in several files: an export has what the one of the day
-- before had.

select
    cast(hash(source, run) >> 1 as bigint) as run_key,
    source,
    run as run_id,
    metric,
    kind,
    step,
    logged_at,
    max(value) as value,
    max(nullif(job, '')) as job_id,
    max(nullif(node, '')) as node_id
from "landed"."main"."bronze_training_metrics"
group by source, run, metric, kind, step, logged_at
