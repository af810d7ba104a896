-- query: scored_days
WITH covered AS (
    SELECT
        dt, sum(observed_gpu_hours) / nullif(sum(capacity_gpu_hours), 0) AS coverage_ratio,
        bool_and(is_poorly_covered) AS is_poorly_covered
    FROM gold_cluster_coverage_daily
    GROUP BY dt
)
SELECT reference.*, covered.coverage_ratio, coalesce(covered.is_poorly_covered, true) AS is_poorly_covered
FROM gold_cluster_util_daily_reference AS reference
LEFT JOIN covered USING (dt)
ORDER BY dt

-- query: daily_utilisation
SELECT
    daily.cluster_id, daily.dt, daily.gpu_util_ratio, daily.coverage_ratio, daily.is_poorly_covered,
    calendar.started_at, calendar.ended_at
FROM gold_cluster_util_daily AS daily
LEFT JOIN silver_days AS calendar ON daily.cluster_id = calendar.cluster_id AND daily.dt = calendar.dt
ORDER BY daily.cluster_id, daily.dt

-- query: ledger
SELECT
    buckets.cluster_id, any_value(clusters.observed_from) AS observed_from,
    any_value(clusters.observed_until) AS observed_until, any_value(clusters.is_generated) AS is_generated,
    any_value(clusters.unknown_demand_ratio) AS unknown_demand_ratio,
    any_value(clusters.observed_basis) AS observed_basis, any_value(ends.first_ended_at) AS first_ended_at,
    map_from_entries(list((bucket, gpu_hours))) AS hours,
    map_from_entries(list((bucket, gpu_hours_at_least))) AS at_least,
    map_from_entries(list((bucket, gpu_hours * coalesce(inferred_ratio, 0)))) AS inferred
FROM gold_ledger_buckets AS buckets
JOIN silver_clusters AS clusters USING (cluster_id)
LEFT JOIN (
    SELECT cluster_id, min(ended_at) AS first_ended_at FROM silver_instances WHERE gpus > 0 GROUP BY cluster_id
) AS ends USING (cluster_id)
GROUP BY buckets.cluster_id
ORDER BY buckets.cluster_id

-- query: holders
SELECT
    cluster_id, user_id, sum(idle_gpu_hours) AS idle, sum(under_used_gpu_hours) AS under_used,
    sum(used_gpu_hours + idle_gpu_hours + under_used_gpu_hours) AS sensed,
    sum(sum(idle_gpu_hours)) OVER (PARTITION BY cluster_id) AS all_idle
FROM gold_ledger_daily
WHERE user_id IS NOT NULL
GROUP BY cluster_id, user_id
ORDER BY idle DESC, cluster_id, user_id

-- query: flagged_days
SELECT daily.*, dayname(daily.dt) AS weekday, scored.anomaly_flag, scored.anomaly_score
FROM gold_cluster_util_daily AS daily
LEFT JOIN gold_cluster_util_daily_scored AS scored USING (dt)
ORDER BY dt, daily.cluster_id

-- query: ran
-- A node of telemetry may have another name as a machine of its cluster. A job that ended as the finding began counts:
-- it may have died of the cause.
WITH asked AS (SELECT unnest(from_json(getvariable('nodes')::JSON, '["VARCHAR"]')) AS node),
held AS (
    SELECT
        holdings.cluster_id, holdings.job_key, holdings.instance_key, holdings.gpus, holdings.held_from,
        holdings.held_until,
        epoch(least(holdings.held_until, to_timestamp(getvariable('until'))))
        - epoch(greatest(holdings.held_from, to_timestamp(getvariable('since')))) AS seconds
    FROM silver_holdings AS holdings
    LEFT JOIN silver_machines AS machines ON holdings.machine_key = machines.machine_key
    WHERE
        holdings.held_from < to_timestamp(getvariable('until'))
        AND holdings.held_until >= to_timestamp(getvariable('since'))
        AND (getvariable('cluster') IS NULL OR holdings.cluster_id = getvariable('cluster'))
        AND (
            getvariable('nodes') = '[]'
            OR machines.machine_id IN (SELECT node FROM asked)
            OR holdings.machine_key IN (SELECT machine_key FROM silver_nodes SEMI JOIN asked ON node_id = node)
        )
),
instances AS (
    SELECT
        cluster_id, job_key, instance_key, max(gpus) AS gpus, sum(gpus * seconds) / 3600 AS gpu_hours,
        min(held_from) AS held_from, max(held_until) AS held_until
    FROM held
    GROUP BY cluster_id, job_key, instance_key
)
SELECT
    jobs.cluster_id, jobs.job_id, jobs.user_id, sum(instances.gpus) AS gpus, sum(instances.gpu_hours) AS gpu_hours,
    min(instances.held_from) AS began_at, max(instances.held_until) AS ended_at, jobs.status,
    count(*) OVER () AS jobs
FROM instances
INNER JOIN silver_jobs AS jobs ON instances.job_key = jobs.job_key
WHERE
    (getvariable('job') IS NULL OR jobs.job_id = getvariable('job'))
    AND (getvariable('user') IS NULL OR jobs.user_id = getvariable('user'))
GROUP BY jobs.cluster_id, jobs.job_id, jobs.user_id, jobs.status
ORDER BY gpu_hours DESC, jobs.cluster_id, jobs.job_id
LIMIT getvariable('most')

-- query: machines
SELECT machine_id FROM silver_machines WHERE getvariable('cluster') IS NULL OR cluster_id = getvariable('cluster')

-- query: user
SELECT 1 FROM silver_jobs WHERE user_id = getvariable('user') LIMIT 1

-- query: day
SELECT min(epoch(started_at)) AS since, max(epoch(ended_at)) AS until FROM silver_days
WHERE dt = getvariable('day')::DATE AND (getvariable('cluster') IS NULL OR cluster_id = getvariable('cluster'))

-- query: observed
SELECT max(epoch(observed_until)) AS until FROM silver_clusters
WHERE getvariable('cluster') IS NULL OR cluster_id = getvariable('cluster')

-- query: gpu_peers
-- Idle GPUs are not compared with busy ones, nor those of one job with those of another: where samples do not name the
-- job, hours in which the scheduler had several jobs on the machine are left out. Only nodes are read of which, in some
-- hour, one GPU was that far from the median of the others; the longer the history of a node, the longer the interval
-- of its points.
WITH held AS (
    SELECT
        machine_key,
        job_key,
        unnest(range(epoch_ms(held_from) // 3600000, (epoch_us(held_until) + 3599999999) // 3600000000)) AS hour
    FROM silver_holdings
    WHERE machine_key IN (SELECT machine_key FROM silver_gpu_samples WHERE {holder} IS NULL)
),
shared AS (
    SELECT
        machine_key,
        hour
    FROM held
    GROUP BY machine_key, hour
    HAVING count(DISTINCT job_key) > 1
),
samples AS (
    SELECT
        cluster_id,
        node_id,
        coalesce({holder}, '') AS holder,
        coalesce(CAST(gpu_index AS VARCHAR), gpu_id) AS gpu,
        sampled_at,
        covers_seconds,
        {column} AS seen
    FROM silver_gpu_samples
    WHERE
        parent_gpu_id IS NULL AND {column} IS NOT NULL AND coalesce(busy_ratio, 1) >= 0.5
        AND (
            {holder} IS NOT NULL
            OR NOT coalesce((machine_key, epoch_ms(sampled_at) // 3600000) IN (FROM shared), false)
        )
),
hours AS (
    SELECT
        cluster_id,
        node_id,
        holder,
        gpu,
        epoch_ms(sampled_at) // 3600000 AS hour,
        avg(seen) AS seen,
        sum(covers_seconds) AS s
    FROM samples
    GROUP BY ALL
),
nodes AS (
    SELECT
        cluster_id,
        node_id,
        holder,
        hour,
        max(seen) AS most,
        min(seen) AS least,
        median(seen) AS middle,
        max(s) AS seconds
    FROM hours
    GROUP BY ALL
    HAVING count(*) >= {peers}
),
strange AS (
    SELECT
        cluster_id,
        node_id,
        holder,
        CASE WHEN sum(seconds) < 3600 THEN 2000 WHEN sum(seconds) < 86400 THEN 10000 ELSE 60000 END AS step_ms
    FROM nodes
    GROUP BY cluster_id, node_id, holder
    HAVING count(*) FILTER (abs({edge} - middle) >= {apart} * abs(middle)) > 0
)
SELECT
    samples.cluster_id,
    samples.node_id,
    samples.holder,
    strange.step_ms,
    epoch_ms(samples.sampled_at) // strange.step_ms * strange.step_ms AS at_ms,
    samples.gpu,
    avg(samples.seen) AS seen
FROM samples
INNER JOIN strange
    ON
        samples.cluster_id = strange.cluster_id
        AND samples.node_id = strange.node_id
        AND samples.holder = strange.holder
GROUP BY ALL
ORDER BY samples.cluster_id, samples.node_id, samples.holder, at_ms, samples.gpu

-- query: memory_points
-- Only memory that was half full and grew is read; the longer its history, the longer the interval of its points.
WITH samples AS ({samples}),
strange AS (
    SELECT
        cluster_id,
        node_id,
        subject,
        holder,
        CASE WHEN sum(covers_seconds) < 3600 THEN 2000 WHEN sum(covers_seconds) < 86400 THEN 10000 ELSE 60000 END
            AS step_ms
    FROM samples
    GROUP BY cluster_id, node_id, subject, holder
    HAVING max(ratio) >= {least} AND max(ratio) - min(ratio) >= 0.1
)
SELECT
    samples.cluster_id,
    samples.node_id,
    samples.subject,
    samples.holder,
    strange.step_ms,
    epoch_ms(samples.sampled_at) // strange.step_ms * strange.step_ms AS at_ms,
    avg(samples.ratio) AS memory_used_ratio
FROM samples
INNER JOIN strange
    ON
        samples.cluster_id = strange.cluster_id
        AND samples.node_id = strange.node_id
        AND samples.subject = strange.subject
        AND samples.holder = strange.holder
GROUP BY ALL
ORDER BY samples.cluster_id, samples.node_id, samples.subject, samples.holder, at_ms

-- query: rows_of_nodes
-- Nodes that go over the limit within two hours of each other, for the same reason, are one row. A node that paused for
-- six hours is in a new one.
WITH hours AS ({hours}),
spells AS (
    SELECT cluster_id, reason, node_id, min(at_ms) AS begin_ms, max(at_ms) AS end_ms
    FROM (
        SELECT *, count(*) FILTER (pause_ms > 6 * 3600000) OVER by_time AS spell
        FROM (
            SELECT *, at_ms - lag(at_ms) OVER by_time AS pause_ms
            FROM hours
            WHERE seen >= {limit}
            WINDOW by_time AS (PARTITION BY cluster_id, reason, node_id ORDER BY at_ms)
        )
        WINDOW by_time AS (PARTITION BY cluster_id, reason, node_id ORDER BY at_ms)
    )
    GROUP BY cluster_id, reason, node_id, spell
    HAVING count(*) >= {points}
),
node_rows AS (
    SELECT *, count(*) FILTER (later_ms > 2 * 3600000) OVER by_begin AS row_number
    FROM (
        SELECT *, begin_ms - lag(begin_ms) OVER by_begin AS later_ms
        FROM spells
        WINDOW by_begin AS (PARTITION BY cluster_id, reason ORDER BY begin_ms, node_id)
    )
    WINDOW by_begin AS (PARTITION BY cluster_id, reason ORDER BY begin_ms, node_id)
)
SELECT
    hours.cluster_id, hours.reason, node_rows.row_number, hours.at_ms, hours.node_id AS gpu,
    CASE WHEN hours.seen < {limit} OR hours.at_ms BETWEEN node_rows.begin_ms AND node_rows.end_ms THEN hours.seen END
        AS seen
FROM hours
INNER JOIN node_rows
    ON
        hours.cluster_id = node_rows.cluster_id
        AND hours.reason = node_rows.reason
        AND hours.node_id = node_rows.node_id
ORDER BY hours.cluster_id, hours.reason, node_rows.row_number, hours.at_ms, hours.node_id
