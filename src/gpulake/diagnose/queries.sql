-- query: held
-- Attempts at the time of the log; without a time, the last try of each instance. Two clusters may use one job id:
-- then the times, or the caller, must tell which of them it was.
WITH held AS (
    SELECT
        holdings.cluster_id, holdings.gpus, holdings.held_from, holdings.held_until,
        holdings.attempt = max(holdings.attempt) OVER (PARTITION BY holdings.instance_key) AS is_last
    FROM silver_holdings AS holdings
    INNER JOIN silver_jobs AS jobs ON holdings.job_key = jobs.job_key
    WHERE
        jobs.job_id = getvariable('job_id')
        AND (getvariable('cluster_id') IS NULL OR jobs.cluster_id = getvariable('cluster_id'))
),
run AS (
    FROM held
    WHERE
        CASE
            WHEN getvariable('began_at') IS NULL THEN is_last
            ELSE
                held_from <= getvariable('ended_at')::TIMESTAMPTZ
                AND held_until >= getvariable('began_at')::TIMESTAMPTZ
        END
),
lost AS (
    SELECT
        cluster_id, gpus,
        greatest(held_from, coalesce(getvariable('since')::TIMESTAMPTZ, held_from)) AS lost_from,
        least(held_until, coalesce(getvariable('until')::TIMESTAMPTZ, held_until)) AS lost_until
    FROM run
)
SELECT
    count(DISTINCT cluster_id) AS clusters, any_value(cluster_id) AS cluster_id,
    sum(gpus * greatest(epoch(lost_until) - epoch(lost_from), 0)) / 3600 AS gpu_hours
FROM lost

-- query: scheduled
-- How the scheduler says that a job ended: the state of Slurm where it has one, else the status of any source.
WITH slurm AS (
    SELECT coalesce(lower("Cluster"), 'slurm') AS cluster_id, base_state, "ExitCode" AS exit_code
    FROM bronze_slurm_jobs
    WHERE job_id = getvariable('job_id') AND coalesce(step, '') = ''
    QUALIFY row_number() OVER (PARTITION BY cluster_id ORDER BY "End" DESC NULLS LAST, "Start" DESC NULLS LAST) = 1
)
SELECT
    jobs.cluster_id, jobs.user_id, jobs.status, slurm.base_state AS state, slurm.exit_code
FROM silver_jobs AS jobs
LEFT JOIN slurm ON jobs.cluster_id = slurm.cluster_id
WHERE
    jobs.job_id = getvariable('job_id')
    AND (getvariable('cluster_id') IS NULL OR jobs.cluster_id = getvariable('cluster_id'))

-- query: scheduled_many
-- The same of many jobs, with the GPU-hours that each held.
WITH slurm AS (
    SELECT coalesce(lower("Cluster"), 'slurm') AS cluster_id, job_id, base_state, "ExitCode" AS exit_code
    FROM bronze_slurm_jobs
    WHERE list_contains(string_split(getvariable('job_ids'), '|'), job_id) AND coalesce(step, '') = ''
    QUALIFY
        row_number() OVER (PARTITION BY cluster_id, job_id ORDER BY "End" DESC NULLS LAST, "Start" DESC NULLS LAST) = 1
),
held AS (
    SELECT job_key, sum(gpus * greatest(epoch(held_until) - epoch(held_from), 0)) / 3600 AS gpu_hours
    FROM silver_holdings
    GROUP BY job_key
)
SELECT
    jobs.job_id, jobs.cluster_id, jobs.user_id, jobs.status, slurm.base_state AS state, slurm.exit_code, held.gpu_hours
FROM silver_jobs AS jobs
LEFT JOIN slurm ON jobs.cluster_id = slurm.cluster_id AND jobs.job_id = slurm.job_id
LEFT JOIN held ON jobs.job_key = held.job_key
WHERE
    list_contains(string_split(getvariable('job_ids'), '|'), jobs.job_id)
    AND (getvariable('cluster_id') IS NULL OR jobs.cluster_id = getvariable('cluster_id'))

-- query: nodes
-- A log may say the short name of a node and the sampler its whole one, or the other way round: both are made short.
SELECT DISTINCT node_id FROM silver_nodes

-- query: nodes_of_job
SELECT DISTINCT nodes.node_id
FROM silver_jobs AS jobs
INNER JOIN silver_holdings AS holdings ON jobs.job_key = holdings.job_key
INNER JOIN silver_nodes AS nodes ON holdings.machine_key = nodes.machine_key
WHERE
    jobs.job_id = getvariable('job_id')
    AND (getvariable('cluster_id') IS NULL OR jobs.cluster_id = getvariable('cluster_id'))
    AND epoch(holdings.held_from) <= getvariable('until') AND epoch(holdings.held_until) >= getvariable('since')

-- query: span_of_job
SELECT epoch(min(holdings.held_from)) AS since, epoch(max(holdings.held_until)) AS until
FROM silver_jobs AS jobs
INNER JOIN silver_holdings AS holdings ON jobs.job_key = holdings.job_key
WHERE
    jobs.job_id = getvariable('job_id')
    AND (getvariable('cluster_id') IS NULL OR jobs.cluster_id = getvariable('cluster_id'))

-- query: of_nodes
-- What follows silver_gpu_samples, silver_host_samples and silver_node_events.
WHERE
    epoch({at}) BETWEEN getvariable('since') AND getvariable('until')
    AND list_contains(from_json(getvariable('nodes')::JSON, '["VARCHAR"]'), lower(split_part(node_id, '.', 1)))
ORDER BY {at}

-- query: silver_gpu_samples
SELECT
    epoch(sampled_at) AS at_seconds, node_id AS node, gpu_id AS gpu, busy_ratio, memory_used_bytes, memory_total_bytes,
    power_watts, temperature_celsius, slowdown_temperature_celsius, ecc_uncorrected_total AS ecc_uncorrected, last_xid,
    clock_event_reasons
FROM silver_gpu_samples

-- query: silver_host_samples
SELECT
    epoch(sampled_at) AS at_seconds, node_id AS node, memory_available_bytes, memory_free_bytes, memory_total_bytes,
    cpu_busy_ratio, oom_kills_total AS oom_kills
FROM silver_host_samples

-- query: silver_node_events
SELECT
    epoch(happened_at) AS at_seconds, node_id AS node, kind, coalesce(subject, '') AS subject, code, pid,
    coalesce(message, '') AS message
FROM silver_node_events

-- query: training_run
-- The run of that name, or of that job; of several, the last one that logged.
SELECT run_key, source, run_id, job_id, cluster_id, epoch(ended_at) AS ended_seconds
FROM silver_training_runs
WHERE
    (run_id = getvariable('run_id') OR job_id = getvariable('job_id'))
    AND (getvariable('cluster_id') IS NULL OR cluster_id IS NULL OR cluster_id = getvariable('cluster_id'))
ORDER BY ended_at DESC NULLS LAST, steps DESC, run_key
LIMIT 1

-- query: training_steps
SELECT
    epoch(logged_at) AS at_seconds, step, restarts, loss, took_seconds, usual_row_seconds, coalesce(restart_seconds, 0) > 0
        AS is_restart
FROM silver_training_steps
WHERE run_key = getvariable('run_key')
ORDER BY restarts, step

-- query: training_parts
SELECT part, seconds, time_ratio, gpu_hours
FROM gold_run_goodput
WHERE run_key = getvariable('run_key') AND seconds > 0
ORDER BY seconds DESC, part
