WITH jobs AS (
    SELECT cluster_id, job_key, epoch_ms(min(held_from)) // 3600000 AS hour, bool_and(bucket = 'idle') AS is_empty
    FROM silver_holdings
    WHERE bucket IN ('idle', 'used')
    GROUP BY cluster_id, job_key
),
empty AS (
    SELECT jobs.cluster_id, owned.user_id, jobs.hour, count(*) AS jobs
    FROM jobs
    INNER JOIN silver_jobs AS owned ON jobs.job_key = owned.job_key
    WHERE jobs.is_empty AND owned.user_id IS NOT NULL
    GROUP BY ALL
),
hours AS (SELECT cluster_id, hour, sum(jobs) AS jobs FROM empty GROUP BY ALL),
days AS (SELECT cluster_id, user_id, hour // 24 AS day, sum(jobs) AS jobs FROM empty GROUP BY ALL),
spans AS (SELECT cluster_id, max(hour) // 24 - min(hour) // 24 + 1 AS days FROM hours GROUP BY ALL),
strange AS (
    SELECT days.cluster_id, days.user_id
    FROM days
    INNER JOIN spans ON days.cluster_id = spans.cluster_id
    GROUP BY days.cluster_id, days.user_id, spans.days
    HAVING max(days.jobs) >= {least} / 2 AND max(days.jobs) >= 3 * sum(days.jobs) / spans.days
)
SELECT
    hours.cluster_id,
    strange.user_id,
    hours.hour * 3600000 AS at_ms,
    coalesce(empty.jobs, 0) AS empty_jobs,
    hours.jobs AS all_empty_jobs
FROM hours
INNER JOIN strange ON hours.cluster_id = strange.cluster_id
LEFT JOIN empty
    ON hours.cluster_id = empty.cluster_id AND hours.hour = empty.hour AND strange.user_id = empty.user_id
ORDER BY hours.cluster_id, strange.user_id, at_ms
