-- Jobs for the Standard Workload Format. Variables: cluster, processors (GPUs or CPUs).

-- query: jobs
WITH ran AS (
    SELECT
        job_key,
        instance_key,
        min(started_at) AS started_at,
        max(ended_at) AS ended_at,
        max(gpus) AS gpus
    FROM silver_instances
    WHERE cluster_id = getvariable('cluster')
    GROUP BY job_key, instance_key
),

held AS (
    SELECT
        job_key,
        min(started_at) AS started_at,
        max(ended_at) AS ended_at,
        sum(gpus) AS gpus
    FROM ran
    GROUP BY job_key
),

asked AS (
    SELECT
        job_key,
        sum(requested_gpus * greatest(coalesce(planned_instances, 1), 1)) AS gpus,
        sum(requested_cores * greatest(coalesce(planned_instances, 1), 1)) AS cores,
        sum(requested_memory_bytes * greatest(coalesce(planned_instances, 1), 1)) AS memory_bytes
    FROM silver_tasks
    WHERE cluster_id = getvariable('cluster')
    GROUP BY job_key
)

SELECT
    jobs.status,
    jobs.user_id,
    jobs.account_id,
    nullif(jobs.group_id, jobs.user_id) AS group_id,
    nullif(jobs.partition_id, '') AS partition_id,
    epoch(jobs.submitted_at) AS submitted,
    epoch(held.started_at) AS started,
    epoch(held.ended_at) AS ended,
    CASE WHEN getvariable('processors') = 'GPUs' THEN asked.gpus ELSE asked.cores END AS requested,
    CASE WHEN getvariable('processors') = 'GPUs' THEN held.gpus END AS allocated,
    asked.memory_bytes
FROM silver_jobs AS jobs
LEFT JOIN held ON jobs.job_key = held.job_key
LEFT JOIN asked ON jobs.job_key = asked.job_key
WHERE jobs.cluster_id = getvariable('cluster')
ORDER BY jobs.submitted_at, length(jobs.job_id), jobs.job_id

-- query: capacity
SELECT
    cast(coalesce(ceil(sum(gpus)), 0) AS bigint) AS gpus,
    (
        SELECT cast(coalesce(ceil(sum(cores)), 0) AS bigint) FROM silver_machines
        WHERE cluster_id = getvariable('cluster')
    ) AS cores
FROM silver_capacity WHERE cluster_id = getvariable('cluster')
