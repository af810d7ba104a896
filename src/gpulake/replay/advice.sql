-- What advice asks the lake. Variable: cluster. $pool is the key of the machine that stands for a whole cluster; $near is
-- how many seconds apart an outage and the end of an attempt may be to be one failure; $classes are sizes of jobs.

-- query: failures
-- By the GPUs that a job held at once: failures of hardware and infrastructure, and the GPU-hours in which they came. An
-- attempt fails so if it lost its node, if it was lost as its machine went down, or if its job's incident says so; what
-- a job lost within $near seconds is one failure.
WITH instances AS (
    SELECT
        job_key,
        instance_key,
        max(gpus) AS gpus,
        sum(gpus * held_seconds) / 3600 AS gpu_hours
    FROM silver_holdings
    WHERE cluster_id = getvariable('cluster')
    GROUP BY job_key, instance_key
),

sized AS (
    SELECT
        job_key,
        sum(gpus) AS gpus,
        sum(gpu_hours) AS gpu_hours
    FROM instances
    GROUP BY job_key
),

lost AS (
    SELECT
        job_key,
        machine_key,
        status,
        held_until AS ended_at
    FROM silver_holdings
    WHERE
        cluster_id = getvariable('cluster')
        AND status IN ('failed', 'interrupted', 'node_fail')
        AND held_until IS NOT NULL
),

diagnosed AS (
    SELECT DISTINCT jobs.job_key
    FROM incidents
    INNER JOIN silver_jobs AS jobs ON incidents.job_id = jobs.job_id
    WHERE
        incidents.kind = 'failure'
        AND incidents.category = 'infrastructure'
        AND incidents.merged_into IS NULL
        AND coalesce(incidents.cluster_id, jobs.cluster_id) = jobs.cluster_id
        AND jobs.cluster_id = getvariable('cluster')
),

struck AS (
    SELECT
        job_key,
        ended_at
    FROM lost
    WHERE status = 'node_fail'
    UNION ALL
    SELECT
        lost.job_key,
        lost.ended_at
    FROM lost
    INNER JOIN silver_outages AS outages
        ON
            lost.machine_key = outages.machine_key
            AND abs(epoch(lost.ended_at) - epoch(outages.started_at)) <= $near
    WHERE outages.basis IN ('recorded', 'reported', 'died')
    UNION ALL
    SELECT
        lost.job_key,
        max(lost.ended_at) AS ended_at
    FROM lost
    INNER JOIN diagnosed ON lost.job_key = diagnosed.job_key
    GROUP BY lost.job_key
),

spaced AS (
    SELECT
        job_key,
        epoch(ended_at) - epoch(lag(ended_at) OVER (PARTITION BY job_key ORDER BY ended_at)) AS apart
    FROM struck
),

counted AS (
    SELECT
        job_key,
        count(*) AS failures
    FROM spaced
    WHERE apart IS NULL OR apart > $near
    GROUP BY job_key
)

SELECT
    sizes.least_gpus,
    count(*) AS jobs,
    sum(sized.gpu_hours) AS gpu_hours,
    cast(coalesce(sum(counted.failures), 0) AS bigint) AS failures
FROM sized
ASOF INNER JOIN (VALUES $classes) AS sizes (least_gpus) ON sized.gpus >= sizes.least_gpus
LEFT JOIN counted ON sized.job_key = counted.job_key
GROUP BY sizes.least_gpus
ORDER BY sizes.least_gpus

-- query: restarts
-- From the end of a lost attempt to the begin of the next one of its instance, where both are recorded.
WITH attempts AS (
    SELECT
        status,
        is_inferred OR lead(is_inferred) OVER (PARTITION BY instance_key ORDER BY attempt) AS is_inferred,
        epoch(lead(held_from) OVER (PARTITION BY instance_key ORDER BY attempt)) - epoch(held_until) AS gap_seconds
    FROM silver_holdings
    WHERE cluster_id = getvariable('cluster')
)

SELECT
    count(*) AS times,
    median(gap_seconds) AS seconds
FROM attempts
WHERE status IN ('failed', 'interrupted', 'node_fail') AND gap_seconds >= 0 AND NOT is_inferred

-- query: checkpoints
SELECT
    count(*) AS times,
    median(steps.checkpoint_seconds) AS seconds
FROM silver_training_steps AS steps
INNER JOIN silver_training_runs AS runs ON steps.run_key = runs.run_key
WHERE runs.cluster_id = getvariable('cluster') AND steps.checkpoint_seconds > 0

-- query: outages
-- By GPU type: machines, how many of their hours they were down, and how many were down at once, by share of the time.
WITH machines AS (
    SELECT
        machine_key,
        gpu_type
    FROM silver_capacity
    WHERE cluster_id = getvariable('cluster') AND gpus > 0 AND machine_key != $pool
),

span AS (
    SELECT
        observed_from,
        observed_until,
        epoch(observed_until) - epoch(observed_from) AS seconds
    FROM silver_clusters
    WHERE cluster_id = getvariable('cluster') AND observed_until > observed_from
),

down AS (
    SELECT
        machines.gpu_type,
        greatest(epoch(outages.started_at), epoch(span.observed_from)) AS began,
        least(epoch(outages.ended_at), epoch(span.observed_until)) AS ended
    FROM silver_outages AS outages
    INNER JOIN machines ON outages.machine_key = machines.machine_key
    CROSS JOIN span
    WHERE
        outages.basis IN ('recorded', 'reported', 'died')
        AND outages.ended_at > span.observed_from
        AND outages.started_at < span.observed_until
),

changes AS (
    SELECT
        gpu_type,
        began AS instant,
        1 AS change
    FROM down
    UNION ALL
    SELECT
        gpu_type,
        ended AS instant,
        -1 AS change
    FROM down
),

levels AS (
    SELECT
        gpu_type,
        sum(change) OVER (PARTITION BY gpu_type ORDER BY instant, change ROWS UNBOUNDED PRECEDING) AS machines_down,
        lead(instant) OVER (PARTITION BY gpu_type ORDER BY instant, change) - instant AS seconds
    FROM changes
),

shares AS (
    SELECT
        gpu_type,
        machines_down,
        sum(seconds) AS seconds,
        sum(sum(seconds)) OVER (PARTITION BY gpu_type ORDER BY machines_down DESC) AS as_many_seconds
    FROM levels
    WHERE machines_down > 0 AND seconds > 0
    GROUP BY gpu_type, machines_down
),

counted AS (
    SELECT
        machines.gpu_type,
        count(*) AS machines
    FROM machines
    GROUP BY machines.gpu_type
)

SELECT
    counted.gpu_type,
    counted.machines,
    span.seconds / 3600 AS observed_hours,
    (SELECT count(*) FROM down WHERE down.gpu_type = counted.gpu_type) AS outages,
    (SELECT coalesce(sum(down.ended - down.began), 0) / 3600 FROM down WHERE down.gpu_type = counted.gpu_type)
        AS down_hours,
    (
        SELECT cast(coalesce(max(shares.machines_down), 0) AS bigint) FROM shares
        WHERE shares.gpu_type = counted.gpu_type AND shares.as_many_seconds > 0.05 * span.seconds
    ) AS down_at_once_p95,
    (
        SELECT cast(coalesce(max(shares.machines_down), 0) AS bigint) FROM shares
        WHERE shares.gpu_type = counted.gpu_type AND shares.as_many_seconds > 0.01 * span.seconds
    ) AS down_at_once_p99
FROM counted
CROSS JOIN span
ORDER BY counted.machines DESC, counted.gpu_type

-- query: reservations
-- GPUs held at once, by share of the time: of each account over the time under observation, and of the jobs of each
-- reservation over the time that it lasted.
WITH holders AS (
    SELECT
        'account' AS kind,
        jobs.account_id AS holder,
        epoch(holdings.held_from) AS began,
        epoch(holdings.held_until) AS ended,
        holdings.gpus
    FROM silver_holdings AS holdings
    INNER JOIN silver_jobs AS jobs ON holdings.job_key = jobs.job_key
    WHERE holdings.cluster_id = getvariable('cluster') AND nullif(jobs.account_id, '') IS NOT NULL
    UNION ALL
    SELECT
        'reservation' AS kind,
        jobs.reservation_id AS holder,
        epoch(greatest(holdings.held_from, reserved.started_at)) AS began,
        epoch(least(holdings.held_until, reserved.ended_at)) AS ended,
        holdings.gpus
    FROM silver_holdings AS holdings
    INNER JOIN silver_jobs AS jobs ON holdings.job_key = jobs.job_key
    INNER JOIN gold_reservations AS reserved
        ON jobs.cluster_id = reserved.cluster_id AND jobs.reservation_id = reserved.reservation_id
    WHERE
        holdings.cluster_id = getvariable('cluster')
        AND holdings.held_from < reserved.ended_at
        AND holdings.held_until > reserved.started_at
),

lasting AS (
    SELECT
        'account' AS kind,
        holder,
        any_value(epoch(clusters.observed_until) - epoch(clusters.observed_from)) AS seconds,
        cast(NULL AS double) AS reserved_gpus
    FROM holders
    CROSS JOIN silver_clusters AS clusters
    WHERE holders.kind = 'account' AND clusters.cluster_id = getvariable('cluster')
    GROUP BY holder
    UNION ALL
    SELECT
        'reservation' AS kind,
        reservation_id AS holder,
        sum(epoch(ended_at) - epoch(started_at)) AS seconds,
        max(gpus) AS reserved_gpus
    FROM gold_reservations
    WHERE cluster_id = getvariable('cluster') AND NOT is_maintenance
    GROUP BY reservation_id
),

changes AS (
    SELECT
        kind,
        holder,
        began AS instant,
        gpus AS change
    FROM holders
    WHERE ended > began
    UNION ALL
    SELECT
        kind,
        holder,
        ended AS instant,
        -gpus AS change
    FROM holders
    WHERE ended > began
),

levels AS (
    SELECT
        kind,
        holder,
        sum(change) OVER (PARTITION BY kind, holder ORDER BY instant, change ROWS UNBOUNDED PRECEDING) AS gpus,
        lead(instant) OVER (PARTITION BY kind, holder ORDER BY instant, change) - instant AS seconds
    FROM changes
),

shares AS (
    SELECT
        kind,
        holder,
        round(gpus, 6) AS gpus,
        sum(seconds) AS seconds,
        sum(sum(seconds)) OVER (PARTITION BY kind, holder ORDER BY round(gpus, 6) DESC) AS as_many_seconds
    FROM levels
    WHERE gpus > 1e-6 AND seconds > 0
    GROUP BY kind, holder, round(gpus, 6)
)

SELECT
    lasting.kind,
    lasting.holder,
    any_value(lasting.reserved_gpus) AS reserved_gpus,
    coalesce(sum(shares.gpus * shares.seconds), 0) / any_value(lasting.seconds) AS mean_gpus,
    coalesce(max(shares.gpus) FILTER (WHERE shares.as_many_seconds > 0.5 * lasting.seconds), 0) AS median_gpus,
    coalesce(max(shares.gpus) FILTER (WHERE shares.as_many_seconds > 0.05 * lasting.seconds), 0) AS p95_gpus,
    coalesce(max(shares.gpus) FILTER (WHERE shares.as_many_seconds > 0.01 * lasting.seconds), 0) AS p99_gpus,
    coalesce(max(shares.gpus), 0) AS most_gpus
FROM lasting
LEFT JOIN shares ON lasting.kind = shares.kind AND lasting.holder = shares.holder
WHERE lasting.seconds > 0
GROUP BY lasting.kind, lasting.holder
ORDER BY lasting.kind DESC, mean_gpus DESC, lasting.holder

-- query: evaluations
-- Jobs of evaluation and all others: what they held, what of it was measured to be unused, and how long they waited.
WITH hours AS (
    SELECT
        job_key,
        sum(held_gpu_hours) AS held_gpu_hours,
        sum(idle_gpu_hours + under_used_gpu_hours) AS unused_gpu_hours,
        sum(unobserved_gpu_hours) AS unobserved_gpu_hours
    FROM gold_job_efficiency_daily
    WHERE cluster_id = getvariable('cluster')
    GROUP BY job_key
),

jobs AS (
    SELECT
        job_key,
        launch_wait_seconds,
        regexp_matches(lower(concat_ws(' ', workload, group_id)), '(^|[^a-z])eval') AS is_evaluation
    FROM silver_jobs
    WHERE cluster_id = getvariable('cluster')
),

alone AS (
    SELECT
        count(*) FILTER (WHERE jobs.is_evaluation) AS jobs,
        coalesce(sum(hours.held_gpu_hours) FILTER (WHERE jobs.is_evaluation), 0) AS held_gpu_hours,
        coalesce(sum(hours.unused_gpu_hours) FILTER (WHERE jobs.is_evaluation), 0) AS unused_gpu_hours,
        coalesce(sum(hours.unobserved_gpu_hours) FILTER (WHERE jobs.is_evaluation), 0) AS unobserved_gpu_hours,
        median(jobs.launch_wait_seconds) FILTER (WHERE jobs.is_evaluation) AS median_wait_seconds,
        median(jobs.launch_wait_seconds) FILTER (WHERE NOT jobs.is_evaluation) AS others_median_wait_seconds
    FROM jobs
    INNER JOIN hours ON jobs.job_key = hours.job_key
)

SELECT
    alone.*,
    (
        SELECT coalesce(sum(gpu_hours), 0) FROM gold_run_goodput
        WHERE part = 'evaluation' AND cluster_id = getvariable('cluster')
    ) AS in_training_gpu_hours
FROM alone
