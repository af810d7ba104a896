-- query: found
SELECT job_key, cluster_id FROM silver_jobs
WHERE job_id = getvariable('job') AND (getvariable('cluster') IS NULL OR cluster_id = getvariable('cluster'))
ORDER BY cluster_id

-- query: alike
SELECT job_id FROM silver_jobs WHERE starts_with(job_id, getvariable('job')) ORDER BY job_id LIMIT 5

-- query: job
SELECT
    jobs.cluster_id, jobs.job_id, jobs.user_id, jobs.account_id, jobs.group_id, jobs.workload, jobs.status,
    jobs.submitted_at, jobs.started_at, jobs.ended_at, jobs.wait_reason,
    CASE WHEN jobs.status IN ('running', 'waiting') THEN clusters.observed_until END AS seen_until,
    coalesce(
        jobs.launch_wait_seconds,
        CASE WHEN jobs.status = 'waiting' THEN epoch(clusters.observed_until) - epoch(jobs.submitted_at) END
    ) AS waited_seconds
FROM silver_jobs AS jobs
LEFT JOIN silver_clusters AS clusters ON jobs.cluster_id = clusters.cluster_id
WHERE jobs.job_key = getvariable('job_key')

-- query: runs
-- A job that is requeued, or whose instances come one after the other, does not run in between.
SELECT started_at, ended_at FROM silver_instances
WHERE job_key = getvariable('job_key') AND started_at IS NOT NULL ORDER BY started_at

-- query: asked
SELECT
    sum(requested_gpus * planned_instances) AS gpus, string_agg(DISTINCT gpu_type, ', ' ORDER BY gpu_type) AS gpu_type,
    sum(requested_cores * planned_instances) AS cores,
    sum(requested_memory_bytes * planned_instances)::BIGINT AS memory_bytes, sum(planned_instances)::BIGINT AS instances
FROM silver_tasks WHERE job_key = getvariable('job_key')

-- query: models
SELECT gpu_type, gpu_model, memory_bytes FROM silver_gpu_types

-- query: held
SELECT gpu_type, sum(held_gpu_hours) AS held, sum(inferred_gpu_hours) AS inferred, $held
FROM gold_job_efficiency_daily WHERE job_key = getvariable('job_key') GROUP BY gpu_type ORDER BY gpu_type

-- query: attempts
-- The GPUs that an attempt used are means over its time.
SELECT
    holdings.attempt, holdings.status, coalesce(machines.machine_id, seen.machine_id) AS machine_id,
    holdings.held_from, holdings.held_until, holdings.is_inferred, holdings.gpus, holdings.bucket, holdings.held_seconds, usage.used_gpus, usage.used_cores,
    usage.peak_memory_bytes, usage.peak_gpu_memory_bytes
FROM silver_holdings AS holdings
LEFT JOIN silver_instances AS instances
    ON holdings.instance_key = instances.instance_key AND holdings.attempt = instances.attempt
LEFT JOIN silver_instance_usage AS usage ON instances.worker_key = usage.worker_key
LEFT JOIN silver_machines AS machines ON holdings.machine_key = machines.machine_key
LEFT JOIN silver_capacity AS seen ON holdings.machine_key = seen.machine_key
WHERE holdings.job_key = getvariable('job_key')
ORDER BY holdings.held_from, 3, holdings.instance_key

-- query: gpus
-- A sample is of the job if its owner is, under any name that telemetry has for it, or if it names nobody and the
-- scheduler says that the job held the GPU. Where nothing says whose a GPU is and the job was alone on the machine, the
-- busiest GPUs are its own, as many as it held.
WITH names AS MATERIALIZED (
    SELECT getvariable('job') AS owner_id
    UNION
    SELECT raw_job_id FROM bronze_slurm_jobs
    WHERE job_id = getvariable('job') AND coalesce(lower("Cluster"), 'slurm') = getvariable('cluster')
    UNION
    SELECT unnest([pod_uid, group_id || '/' || pod_name]) FROM silver_pod_runs
    WHERE job_key = getvariable('job_key')
),
attempts AS (
    SELECT machine_key, attempt, min(held_from) AS held_from, max(held_until) AS held_until, sum(gpus) AS gpus
    FROM silver_holdings
    WHERE job_key = getvariable('job_key') AND machine_key IS NOT NULL GROUP BY machine_key, attempt
),
held AS MATERIALIZED (
    SELECT machine_key, min(held_from) AS held_from, max(held_until) AS held_until, max(gpus) AS gpus
    FROM attempts GROUP BY machine_key
),
shared AS (
    SELECT DISTINCT held.machine_key
    FROM silver_holdings AS others
    INNER JOIN held
        ON
            others.machine_key = held.machine_key
            AND others.held_from < held.held_until AND others.held_until > held.held_from
    WHERE others.job_key != getvariable('job_key')
),
seen AS (
    SELECT
        samples.node_id AS node, samples.gpu_index, samples.gpu_id,
        bool_or(coalesce(samples.owner_id IN (SELECT names.owner_id FROM names), false) OR listed.gpu_index IS NOT NULL)
            AS is_named,
        any_value(held.gpus) AS held_gpus,
        sum(samples.busy_ratio * samples.covers_seconds)
        / nullif(sum(samples.covers_seconds) FILTER (samples.busy_ratio IS NOT NULL), 0) AS busy_ratio,
        max(samples.memory_used_bytes) AS peak_memory_bytes,
        coalesce(max(samples.memory_total_bytes), max(types.memory_bytes)) AS memory_bytes,
        sum(samples.power_watts * samples.covers_seconds)
        / nullif(sum(samples.covers_seconds) FILTER (samples.power_watts IS NOT NULL), 0) AS power_watts,
        sum(samples.energy_joules) AS energy_joules,
        sum(samples.covers_seconds) AS seconds
    FROM silver_gpu_samples AS samples
    INNER JOIN held
        ON
            samples.machine_key = held.machine_key
            AND samples.sampled_at >= held.held_from AND samples.sampled_at < held.held_until
    LEFT JOIN silver_gpu_types AS types ON samples.gpu_name = types.gpu_type AND samples.parent_gpu_id IS NULL
    LEFT JOIN silver_held_gpus AS listed
        ON
            listed.job_key = getvariable('job_key')
            AND samples.owner_kind IN ('unknown', 'unattributed', 'nobody')
            AND samples.machine_key = listed.machine_key AND samples.gpu_index = listed.gpu_index
            AND samples.sampled_at >= listed.started_at
            AND samples.sampled_at < coalesce(listed.ended_at, held.held_until)
    WHERE
        samples.owner_id IN (SELECT names.owner_id FROM names)
        OR listed.gpu_index IS NOT NULL
        OR (
            samples.machine_key NOT IN (SELECT shared.machine_key FROM shared)
            AND samples.owner_kind IN ('unknown', 'unattributed', 'nobody')
        )
    GROUP BY samples.node_id, samples.gpu_index, samples.gpu_id
)
SELECT * EXCLUDE (is_named, held_gpus)
FROM seen
QUALIFY
    is_named OR row_number() OVER (
        PARTITION BY node ORDER BY is_named DESC, busy_ratio DESC NULLS LAST, gpu_index, gpu_id
    ) <= held_gpus
ORDER BY node, gpu_index, gpu_id

-- query: slurm
SELECT
    step, base_state, "TimelimitRaw" AS limit_minutes, "TotalCPU" AS cpu_time, "ElapsedRaw" AS elapsed_seconds,
    "MaxRSS" AS peak_memory, "NTasks" AS tasks
FROM bronze_slurm_jobs
WHERE job_id = getvariable('job') AND coalesce(lower("Cluster"), 'slurm') = getvariable('cluster')

-- query: diagnoses
SELECT diagnosed_at, verdict, reason, category, cause, remedy, incident_id, log
FROM diagnoses WHERE job_id = getvariable('job') AND (cluster_id IS NULL OR cluster_id = getvariable('cluster'))
ORDER BY diagnosed_at DESC LIMIT 1

-- query: incidents
SELECT incident_id, kind, state, severity, coalesce(nullif(cause, ''), reason, kind) AS cause, remedy
FROM incidents WHERE job_id = getvariable('job') AND (cluster_id IS NULL OR cluster_id = getvariable('cluster'))
ORDER BY opened_at DESC

-- query: findings
-- What the nodes that it ran on had in that time.
SELECT finding_id, kind, severity, node, began_at, headline
FROM findings
WHERE
    cluster_id = getvariable('cluster') AND severity IN ('warning', 'critical')
    AND EXISTS (
        SELECT 1 FROM silver_holdings AS holdings
        LEFT JOIN silver_machines AS machines ON holdings.machine_key = machines.machine_key
        LEFT JOIN silver_capacity AS seen ON holdings.machine_key = seen.machine_key
        WHERE
            holdings.job_key = getvariable('job_key')
            AND coalesce(machines.machine_id, seen.machine_id) = findings.node
            AND findings.began_at < holdings.held_until AND findings.ended_at >= holdings.held_from
    )
ORDER BY began_at, finding_id
