-- What a simulation asks the lake. Variables: cluster.

-- query: window
SELECT epoch(observed_from) AS begin_s, epoch(observed_until) AS end_s, is_generated
FROM silver_clusters WHERE cluster_id = getvariable('cluster')

-- query: runs
-- One row per attempt of a task that held GPUs: all its instances, which started together.
WITH lost AS (
    -- Attempts that an outage of their machine ended, and that were tried again: the simulation makes its own.
    SELECT DISTINCT holdings.task_key, holdings.attempt
    FROM silver_holdings AS holdings
    INNER JOIN silver_outages AS outages ON holdings.machine_key = outages.machine_key
    WHERE
        holdings.cluster_id = getvariable('cluster')
        AND outages.basis <> 'silent'
        AND holdings.bucket IN ('failed', 'interrupted')
        AND abs(epoch(holdings.held_until) - epoch(outages.started_at)) <= 600
),

runs AS (
    SELECT
        job_key,
        task_key,
        attempt,
        count(*) AS instances,
        sum(gpus) AS gpus,
        epoch(min(held_from)) AS start_s,
        epoch(max(held_until)) AS end_s,
        bool_or(is_inferred) AS is_inferred,
        bool_or(end_basis = 'censored') AS is_censored,
        bool_and(use_bucket = 'idle') AS is_idle,
        mode(gpu_type) AS gpu_type,
        max(attempt) OVER (PARTITION BY task_key) AS last_attempt
    FROM silver_holdings
    WHERE cluster_id = getvariable('cluster') AND gpus > 0 AND held_until > held_from
    GROUP BY job_key, task_key, attempt
)

SELECT
    jobs.job_id,
    coalesce(tasks.task_name, 'job') AS task_name,
    runs.task_key,
    runs.attempt,
    runs.instances,
    runs.gpus,
    runs.start_s,
    runs.end_s,
    runs.is_inferred,
    runs.is_censored,
    runs.is_idle,
    lost.task_key IS NOT NULL AND runs.attempt < runs.last_attempt AS is_lost,
    coalesce(nullif(jobs.requested_gpu_type, ''), runs.gpu_type, '') AS gpu_type,
    coalesce(nullif(jobs.requested_gpu_type, ''), '') = '' AS is_type_inferred,
    coalesce(jobs.user_id, '') AS user_id,
    coalesce(jobs.group_id, '') AS group_id,
    coalesce(jobs.account_id, jobs.user_id, '') AS account_id,
    coalesce(jobs.partition_id, '') AS partition_id,
    coalesce(jobs.qos_id, '') AS qos_id,
    epoch(jobs.submitted_at) AS submit_s,
    -- Sources without roles give the earliest possible start here.
    CASE WHEN coalesce(tasks.task_name, 'job') = 'job' THEN epoch(tasks.launched_at) END AS eligible_s
FROM runs
INNER JOIN silver_jobs AS jobs ON runs.job_key = jobs.job_key
LEFT JOIN silver_tasks AS tasks ON runs.task_key = tasks.task_key
LEFT JOIN lost ON runs.task_key = lost.task_key AND runs.attempt = lost.attempt
ORDER BY runs.start_s, runs.task_key, runs.attempt

-- query: waiting
SELECT count(*) AS jobs FROM silver_jobs WHERE cluster_id = getvariable('cluster') AND status = 'waiting'

-- query: limits
SELECT job_id, max("TimelimitRaw") * 60 AS limit_s
FROM bronze_slurm_jobs
WHERE "TimelimitRaw" > 0 AND coalesce("Cluster", getvariable('cluster')) = getvariable('cluster')
GROUP BY job_id

-- query: machines
SELECT
    machine_key,
    coalesce(machine_id, '') AS machine_id,
    coalesce(gpu_type, '') AS gpu_type,
    cast(round(gpus) AS bigint) AS gpus,
    basis
FROM silver_capacity
WHERE cluster_id = getvariable('cluster') AND gpus >= 1
ORDER BY machine_id, machine_key

-- query: partitions
SELECT partition_id, nodes FROM silver_partitions WHERE cluster_id = getvariable('cluster')

-- query: outages
SELECT machine_key, epoch(started_at) AS start_s, epoch(ended_at) AS end_s
FROM silver_outages
WHERE cluster_id = getvariable('cluster') AND basis <> 'silent'
ORDER BY start_s, machine_key

-- query: held
-- When each machine held how much: for the check that the records are possible.
SELECT machine_key, gpus, epoch(held_from) AS start_s, epoch(held_until) AS end_s
FROM silver_holdings
WHERE cluster_id = getvariable('cluster') AND gpus > 0 AND held_until > held_from
