-- What a workload asks the lake. Variables: cluster, user_id, first_day, last_day (NULL: all), core_mhz, gpu_mhz,
-- gpu_cores. $pool is the key of the machine that stands for a whole cluster.

-- query: clusters
SELECT DISTINCT cluster_id FROM silver_clusters ORDER BY ALL

-- query: imported
SELECT DISTINCT workload FROM bronze_opendc_tasks ORDER BY ALL

-- query: attempts
-- The selected attempts with their known facts; on several nodes of a pool, one row per node.
WITH zone AS (
    SELECT coalesce(any_value(time_zone), 'UTC') AS time_zone
    FROM silver_clusters WHERE cluster_id = getvariable('cluster')
),

numbered AS (
    SELECT
        instance_key,
        row_number() OVER (PARTITION BY job_key ORDER BY task_name, instance_key) - 1 AS place,
        count(*) OVER (PARTITION BY job_key) AS instances
    FROM (
        SELECT DISTINCT job_key, task_name, instance_key
        FROM silver_instances WHERE cluster_id = getvariable('cluster')
    )
),

attempts AS (
    SELECT
        attempts.job_key,
        attempts.task_key,
        attempts.instance_key,
        attempts.attempt,
        attempts.status,
        attempts.gpus,
        jobs.job_id,
        jobs.submitted_at,
        tasks.launched_at,
        tasks.requested_cores,
        tasks.requested_memory_bytes,
        coalesce(holdings.held_from, attempts.started_at) AS started_at,
        coalesce(holdings.held_until, attempts.ended_at) AS ended_at,
        coalesce(holdings.is_inferred, false) AS is_inferred,
        coalesce(holdings.start_basis, 'recorded') AS start_basis,
        coalesce(holdings.end_basis, 'recorded') AS end_basis,
        usage.used_cores,
        usage.used_gpus,
        usage.peak_memory_bytes,
        machines.cores AS machine_cores,
        machines.memory_bytes AS machine_bytes,
        CASE
            WHEN attempts.machine_key = $pool THEN greatest(1, coalesce(tasks.planned_instances, 1)) ELSE 1
        END AS nodes,
        numbered.place,
        numbered.instances,
        cast(coalesce(holdings.held_from, attempts.started_at) AT TIME ZONE zone.time_zone AS date) AS dt
    FROM silver_instances AS attempts
    LEFT JOIN silver_jobs AS jobs ON attempts.job_key = jobs.job_key
    LEFT JOIN silver_tasks AS tasks ON attempts.task_key = tasks.task_key
    LEFT JOIN silver_holdings AS holdings
        ON attempts.instance_key = holdings.instance_key AND attempts.attempt = holdings.attempt
    LEFT JOIN silver_instance_usage AS usage ON attempts.worker_key = usage.worker_key
    LEFT JOIN silver_machines AS machines ON attempts.machine_key = machines.machine_key
    LEFT JOIN numbered ON attempts.instance_key = numbered.instance_key
    CROSS JOIN zone
    WHERE
        attempts.cluster_id = getvariable('cluster')
        AND (getvariable('user_id') IS NULL OR jobs.user_id = getvariable('user_id'))
        AND (
            getvariable('first_day') IS NULL
            OR cast(coalesce(jobs.submitted_at, attempts.started_at) AT TIME ZONE zone.time_zone AS date)
            BETWEEN cast(getvariable('first_day') AS date) AND cast(getvariable('last_day') AS date)
        )
)

-- query: tasks
$attempts
,

usual AS (
    SELECT
        dt,
        any_value(assumed_busy_ratio) AS busy_ratio,
        any_value(assumed_busy_basis) AS busy_basis
    FROM gold_energy_daily WHERE cluster_id = getvariable('cluster')
    GROUP BY dt
),

-- On days without a ledger, as on all others.
other_days AS (
    SELECT
        sum(busy_gpu_hours - assumed_gpu_hours * assumed_busy_ratio)
        / nullif(sum(held_gpu_hours - assumed_gpu_hours), 0) AS busy_ratio
    FROM gold_energy_daily WHERE cluster_id = getvariable('cluster')
),

tried AS (
    SELECT
        attempts.*,
        coalesce(usual.busy_ratio, other_days.busy_ratio, 1) AS busy_ratio,
        coalesce(
            usual.busy_basis, CASE WHEN other_days.busy_ratio IS NULL THEN 'none' ELSE 'cluster' END
        ) AS busy_basis,
        max(ended_at) OVER (
            PARTITION BY instance_key ORDER BY attempt ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
        ) AS last_try_until,
        CASE
            WHEN status = 'waiting' THEN 'never started'
            WHEN started_at IS NULL OR start_basis = 'none' THEN 'begin unknown'
            WHEN end_basis = 'censored' OR (ended_at IS NULL AND status = 'running') THEN 'still running'
            WHEN ended_at IS NULL OR end_basis = 'none' THEN 'end unknown'
            WHEN ended_at < started_at THEN 'ends before it begins'
            WHEN epoch_ms(started_at) < 0 THEN 'before the epoch'
        END AS reason,
        nullif(requested_cores, 0) AS asked_cores,
        nullif(requested_memory_bytes, 0) AS asked_bytes
    FROM attempts
    LEFT JOIN usual ON attempts.dt = usual.dt
    CROSS JOIN other_days
),

sized AS (
    SELECT
        *,
        coalesce(submitted_at, launched_at, started_at) AS first_submitted_at,
        least(
            greatest(coalesce(asked_cores, used_cores, 1), coalesce(used_cores, 0), 0.01),
            coalesce(nullif(machine_cores, 0), 1e9)
        ) AS cores,
        least(
            greatest(coalesce(asked_bytes, peak_memory_bytes, 1073741824), coalesce(peak_memory_bytes, 0), 1000),
            coalesce(nullif(machine_bytes, 0), 9e18)
        ) AS bytes,
        gpus / nodes AS gpus_here
    FROM tried
)

SELECT
    reason,
    job_id || CASE
        WHEN nodes > 1 THEN '/' || part
        WHEN instances > 1 THEN '/' || place
        ELSE ''
    END || CASE WHEN attempt > 1 THEN '#' || attempt ELSE '' END AS name,
    least(
        epoch_ms(started_at),
        epoch_ms(greatest(first_submitted_at, coalesce(last_try_until, first_submitted_at)))
    ) AS submission_ms,
    greatest(1, epoch_ms(ended_at) - epoch_ms(started_at)) AS duration_ms,
    cast(greatest(1, ceil(cores - 1e-9)) AS bigint) AS cpu_count,
    cores * getvariable('core_mhz') AS cpu_capacity_mhz,
    cast(
        greatest(
            1, least(ceil(bytes / 1000), floor(coalesce(nullif(machine_bytes, 0), 9e18) / 1048576) * 1000)
        ) AS bigint
    ) AS mem_capacity_kb,
    CASE WHEN gpus_here > 0 THEN cast(ceil(gpus_here * getvariable('gpu_cores') - 1e-9) AS bigint) END AS gpu_count,
    CASE WHEN gpus_here > 0 THEN gpus_here * getvariable('gpu_mhz') END AS gpu_capacity_mhz,
    least(coalesce(used_cores / nodes, cores), cores) * getvariable('core_mhz') AS cpu_usage_mhz,
    CASE
        WHEN gpus_here > 0
            THEN least(coalesce(used_gpus / nodes, gpus_here * busy_ratio), gpus_here) * getvariable('gpu_mhz')
    END AS gpu_usage_mhz,
    coalesce(is_inferred, false) AS is_time_inferred,
    submitted_at IS NULL OR submitted_at > started_at AS is_submission_inferred,
    coalesce(last_try_until > first_submitted_at, false) AS is_retry,
    ended_at = started_at AS is_instant,
    used_cores IS NULL AS is_cpu_guessed,
    gpus_here > 0 AND used_gpus IS NULL AS is_gpu_assumed,
    is_gpu_assumed AND busy_basis = 'day' AS is_gpu_of_day,
    is_gpu_assumed AND busy_basis = 'cluster' AS is_gpu_of_cluster,
    is_gpu_assumed AND busy_basis = 'none' AS is_gpu_guessed,
    gpus_here * duration_ms / 3600000 AS gpu_hours,
    asked_cores IS NULL AND used_cores IS NULL AS is_cores_guessed,
    asked_bytes IS NULL AND peak_memory_bytes IS NULL AS is_memory_guessed,
    coalesce(used_cores / nodes > cores OR used_gpus / nodes > gpus_here, false) AS is_clipped,
    gpus_here > 0
    AND gpus_here * getvariable('gpu_cores') < ceil(gpus_here * getvariable('gpu_cores') - 1e-9) AS is_fraction,
    coalesce(ceil(bytes / 1000) > floor(machine_bytes / 1048576) * 1000, false) AS is_memory_trimmed,
    nodes > 1 OR instances > 1 AS is_split,
    attempt = 1 AND (part = 0 AND nodes > 1 OR nodes = 1 AND instances > 1 AND place = 0) AS is_first_of_split
FROM sized, unnest(range(nodes)) AS parts (part)
ORDER BY submission_ms, epoch_ms(started_at), job_key, task_key, instance_key, attempt, part

-- query: most_gpus
$attempts

SELECT cast(coalesce(max(ceil(gpus / nodes - 1e-9)), 0) AS bigint) AS most_gpus FROM attempts

-- query: machines
SELECT
    nullif(gpu_type, '') AS gpu_type,
    coalesce(gpus, 0) AS gpus,
    cast(floor(nullif(cores, 0)) AS bigint) AS cores,
    nullif(memory_bytes, 0) AS memory_bytes,
    count(*) AS machines
FROM silver_machines
WHERE cluster_id = getvariable('cluster') AND machine_id != '(all machines)'
GROUP BY ALL
ORDER BY machines DESC, gpu_type, gpus, cores, memory_bytes

-- query: unlisted
-- GPUs on machines that no inventory lists, and in the pool that represents the whole cluster.
SELECT
    nullif(gpu_type, '') AS gpu_type,
    cast(ceil(gpus - 1e-9) AS bigint) AS gpus,
    machine_key = $pool AS is_pool,
    count(*) AS machines
FROM silver_capacity
WHERE
    cluster_id = getvariable('cluster')
    AND gpus > 0
    AND machine_key NOT IN (
        SELECT machine_key FROM silver_machines
        WHERE cluster_id = getvariable('cluster') AND machine_id != '(all machines)'
    )
GROUP BY ALL
ORDER BY is_pool, machines DESC, gpu_type, gpus

-- query: seen
-- Machines that attempts name.
SELECT count(DISTINCT machine_key) AS machines
FROM silver_instances
WHERE cluster_id = getvariable('cluster') AND machine_key != $pool

-- query: outages
SELECT
    cast(machine_key AS varchar) AS machine,
    basis,
    epoch_ms(started_at) AS started_ms,
    epoch_ms(ended_at) AS ended_ms
FROM silver_outages
WHERE cluster_id = getvariable('cluster') AND basis IN ('recorded', 'died')
ORDER BY started_ms, ended_ms, machine

-- query: node_failures
SELECT cast(machine_key AS varchar) AS machine, epoch_ms(ended_at) AS started_ms
FROM silver_instances
WHERE cluster_id = getvariable('cluster') AND status = 'node_fail' AND ended_at IS NOT NULL
GROUP BY ALL
ORDER BY started_ms, machine
