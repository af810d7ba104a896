-- query: clusters
SELECT cluster_id FROM silver_clusters ORDER BY cluster_id

-- query: gpu_types
SELECT gpu_type FROM silver_gpu_types ORDER BY gpu_type

-- query: nudges
SELECT * FROM nudges ORDER BY nudged_at, seen_at

-- query: holders
-- Times after the end of observation count as that end. An attempt that is running then holds its GPUs; one whose end
-- was inferred does not. A job of which another attempt is, or may be, using its GPUs is not idle.
WITH seen AS (
    SELECT cluster_id, time_zone, least(observed_until, to_timestamp(getvariable('at'))) AS seen_at
    FROM silver_clusters
    WHERE getvariable('cluster') IS NULL OR cluster_id = getvariable('cluster')
),
prices AS (
    SELECT unnest(
        from_json(getvariable('prices')::JSON, '[{"gpu_type": "VARCHAR", "price": "DOUBLE"}]'), recursive := true
    )
),
held AS (
    SELECT
        holdings.cluster_id, holdings.job_key, seen.time_zone, seen.seen_at, holdings.held_from, holdings.gpus,
        coalesce(capacity.gpu_type, holdings.gpu_type, 'unknown') AS gpu_type, holdings.bucket,
        epoch(seen.seen_at) - epoch(holdings.held_from) AS seconds
    FROM silver_holdings AS holdings
    INNER JOIN seen ON holdings.cluster_id = seen.cluster_id
    LEFT JOIN silver_capacity AS capacity ON holdings.machine_key = capacity.machine_key
    WHERE
        holdings.held_from <= seen.seen_at
        AND (seen.seen_at < holdings.held_until OR (holdings.end_basis = 'censored' AND seen.seen_at = held_until))
),
empty AS (
    SELECT
        held.cluster_id, held.job_key, held.time_zone, held.seen_at, min(held.held_from) AS since,
        sum(held.gpus) AS gpus, list(DISTINCT held.gpu_type ORDER BY held.gpu_type) AS gpu_types,
        sum(held.gpus * held.seconds) / 3600 AS gpu_hours,
        CASE WHEN count(*) = count(prices.price) THEN sum(held.gpus * held.seconds * prices.price) / 3600 END AS cost
    FROM held
    LEFT JOIN prices ON held.gpu_type = prices.gpu_type
    WHERE held.bucket = 'idle' AND held.seconds >= 60 * getvariable('minutes')
    GROUP BY held.cluster_id, held.job_key, held.time_zone, held.seen_at
)
SELECT
    empty.cluster_id, jobs.job_id, jobs.user_id, jobs.account_id, jobs.workload, jobs.group_id, empty.gpu_types,
    empty.gpus, empty.since, empty.seen_at, empty.gpu_hours, empty.cost, empty.time_zone,
    empty.job_key IN (SELECT job_key FROM held WHERE bucket != 'idle') AS is_at_work
FROM empty
INNER JOIN silver_jobs AS jobs ON empty.job_key = jobs.job_key
ORDER BY empty.gpu_hours DESC, empty.cluster_id, jobs.job_id
