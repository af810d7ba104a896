-- The job behind the name that telemetry has for the holder of a GPU. A node knows a task of an array, or a part of a
-- heterogeneous job, by its raw number only.

select
    cluster_id,
    'slurm' as owner_kind,
    raw_job_id as owner_id,
    cast(hash(cluster_id, max(own_job_id)) >> 1 as bigint) as job_key
from __dbt__cte__slurm_rows
where step is null and not is_rest and raw_job_id is not null
group by cluster_id, raw_job_id
