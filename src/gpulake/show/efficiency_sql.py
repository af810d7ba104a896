"""The queries of the efficiency card. Each follows SPAN, which says what days of what clusters are asked for."""

from __future__ import annotations

NEEDED = {
    "gold_energy_daily",
    "gold_job_efficiency_daily",
    "gold_ledger_daily",
    "silver_capacity",
    "silver_clusters",
    "silver_days",
    "silver_holdings",
    "silver_instance_usage",
    "silver_instances",
    "silver_jobs",
    "silver_tasks",
}

CLUSTERS = "SELECT cluster_id FROM silver_clusters ORDER BY cluster_id"
IS_KNOWN = """
WITH names AS (
    SELECT user_id, coalesce(group_id, user_id) AS group_id FROM silver_jobs
    UNION ALL
    SELECT user_id, group_id FROM gold_job_efficiency_daily
)
SELECT EXISTS (
    FROM names WHERE user_id = getvariable('user') OR group_id = getvariable('group')
) AS is_known
"""
# There may be thousands: the few that are most alike will do.
ALIKE = {
    "user": """
SELECT user_id AS name FROM silver_jobs WHERE user_id IS NOT NULL GROUP BY user_id
ORDER BY jaro_winkler_similarity(user_id, getvariable('user')) DESC, name LIMIT getvariable('most')
""",
    "group": """
SELECT group_id AS name FROM silver_jobs WHERE group_id IS NOT NULL GROUP BY group_id
ORDER BY jaro_winkler_similarity(group_id, getvariable('group')) DESC, name LIMIT getvariable('most')
""",
}

# The last days of each cluster: clusters need not have been observed at the same time.
SPAN = """
WITH ends AS (
    SELECT cluster_id, max(dt) AS last_dt FROM gold_ledger_daily GROUP BY cluster_id
),
span AS (
    SELECT days.cluster_id, days.dt, days.started_at, days.ended_at
    FROM silver_days AS days
    INNER JOIN ends USING (cluster_id)
    WHERE
        days.dt <= ends.last_dt
        AND (getvariable('days') IS NULL OR days.dt > ends.last_dt - getvariable('days')::INTEGER)
        AND (getvariable('from') IS NULL OR days.dt >= getvariable('from')::DATE)
        AND (getvariable('to') IS NULL OR days.dt <= getvariable('to')::DATE)
        AND (getvariable('cluster') IS NULL OR days.cluster_id = getvariable('cluster'))
),
bounds AS (
    SELECT cluster_id, min(started_at) AS from_at, max(ended_at) AS until_at FROM span GROUP BY cluster_id
)
"""

SPANNED = """
SELECT list(DISTINCT cluster_id ORDER BY cluster_id) AS clusters, min(dt) AS first_dt, max(dt) AS last_dt FROM span
"""

# By day and GPU type: all of the clusters' capacity. Busy as gold_energy_daily reckons it.
CLUSTER_DAYS = """
, ledger AS (
    SELECT
        cluster_id, dt, gpu_type, sum(capacity_gpu_hours) AS capacity, sum(down_gpu_hours) AS down,
        sum(unallocated_gpu_hours) AS unallocated, sum(idle_gpu_hours) AS idle, sum(under_used_gpu_hours) AS under_used,
        sum(lost_gpu_hours) AS lost, sum(unobserved_gpu_hours) AS unobserved,
        sum(productive_gpu_hours) AS productive, sum(inferred_gpu_hours) AS inferred
    FROM gold_ledger_daily
    GROUP BY cluster_id, dt, gpu_type
)
SELECT
    ledger.dt, ledger.gpu_type, sum(ledger.capacity) AS capacity, sum(down) AS down, sum(unallocated) AS unallocated,
    sum(idle) AS idle, sum(under_used) AS under_used, sum(lost) AS lost, sum(unobserved) AS unobserved,
    sum(productive) AS productive, sum(inferred) AS inferred, sum(energy.busy_gpu_hours) AS busy
FROM ledger
SEMI JOIN span USING (cluster_id, dt)
INNER JOIN gold_energy_daily AS energy USING (cluster_id, dt, gpu_type)
GROUP BY ledger.dt, ledger.gpu_type
ORDER BY ledger.dt, ledger.gpu_type
"""

# By day and GPU type: what a user or a group held. Attempts without a sensor are as busy as gold_energy_daily assumes.
HOLDER_DAYS = """
, usual AS (
    SELECT cluster_id, dt, any_value(assumed_busy_ratio) AS busy_ratio FROM gold_energy_daily GROUP BY cluster_id, dt
)
SELECT
    jobs.dt, jobs.gpu_type, sum(idle_gpu_hours) AS idle, sum(under_used_gpu_hours) AS under_used,
    sum(lost_gpu_hours) AS lost, sum(unobserved_gpu_hours) AS unobserved, sum(productive_gpu_hours) AS productive,
    sum(inferred_gpu_hours) AS inferred,
    sum(productive_gpu_hours + (lost_gpu_hours + unobserved_gpu_hours) * coalesce(usual.busy_ratio, 1)) AS busy
FROM gold_job_efficiency_daily AS jobs
SEMI JOIN span USING (cluster_id, dt)
LEFT JOIN usual USING (cluster_id, dt)
WHERE
    (getvariable('user') IS NULL OR user_id = getvariable('user'))
    AND (getvariable('group') IS NULL OR group_id = getvariable('group'))
GROUP BY jobs.dt, jobs.gpu_type
ORDER BY jobs.dt, jobs.gpu_type
"""

# The users who waste most, and the one who is asked for, wherever they stand. Jobs are counted of those alone.
USERS = """
, users AS (
    SELECT
        user_id, sum(held_gpu_hours) AS held, sum(productive_gpu_hours) AS productive, sum(idle_gpu_hours) AS idle,
        sum(under_used_gpu_hours) AS under_used, sum(lost_gpu_hours) AS lost,
        sum(unobserved_gpu_hours) AS unobserved,
        sum(idle_gpu_hours + under_used_gpu_hours + lost_gpu_hours) AS wasted
    FROM gold_job_efficiency_daily
    SEMI JOIN span USING (cluster_id, dt)
    WHERE getvariable('group') IS NULL OR group_id = getvariable('group')
    GROUP BY user_id
),
shown AS (
    SELECT
        *, rank() OVER (ORDER BY wasted DESC) AS waste_rank, rank() OVER (ORDER BY held DESC) AS held_rank,
        count(*) OVER () AS users
    FROM users
    QUALIFY row_number() OVER (ORDER BY wasted DESC, user_id) <= getvariable('most') OR user_id = getvariable('user')
),
counted AS (
    SELECT
        user_id, count(DISTINCT job_key) AS jobs,
        count(DISTINCT CASE WHEN status IN ('failed', 'node_fail') THEN job_key END) AS failed_jobs
    FROM gold_job_efficiency_daily
    SEMI JOIN span USING (cluster_id, dt)
    SEMI JOIN shown USING (user_id)
    WHERE getvariable('group') IS NULL OR group_id = getvariable('group')
    GROUP BY user_id
)
FROM shown
INNER JOIN counted USING (user_id)
ORDER BY wasted DESC, user_id
"""

JOBS_HELD = """
SELECT
    count(DISTINCT job_key) AS jobs,
    count(DISTINCT CASE WHEN status IN ('failed', 'node_fail') THEN job_key END) AS failed_jobs,
    count(DISTINCT user_id) AS users
FROM gold_job_efficiency_daily
SEMI JOIN span USING (cluster_id, dt)
WHERE
    (getvariable('user') IS NULL OR user_id = getvariable('user'))
    AND (getvariable('group') IS NULL OR group_id = getvariable('group'))
"""

JOBS = """
SELECT
    any_value(job_id) AS job_id, any_value(user_id) AS user_id, cluster_id,
    CASE WHEN min(gpu_type) = max(gpu_type) THEN min(gpu_type) ELSE 'several' END AS gpu_type,
    any_value(status) AS status, min(dt) AS dt, sum(held_gpu_hours) AS held, sum(productive_gpu_hours) AS productive,
    sum(idle_gpu_hours) AS idle, sum(under_used_gpu_hours) AS under_used, sum(lost_gpu_hours) AS lost,
    sum(unobserved_gpu_hours) AS unobserved,
    sum(idle_gpu_hours + under_used_gpu_hours + lost_gpu_hours) AS wasted
FROM gold_job_efficiency_daily
SEMI JOIN span USING (cluster_id, dt)
WHERE
    (getvariable('user') IS NULL OR user_id = getvariable('user'))
    AND (getvariable('group') IS NULL OR group_id = getvariable('group'))
GROUP BY cluster_id, job_key
HAVING wasted > 0
ORDER BY wasted DESC, job_id
LIMIT getvariable('most')
"""

# From submission to the begin of the first instance. A clock that ran backwards tells no wait.
WAITS = """
SELECT
    count(*) AS tasks, quantile_cont(tasks.launch_wait_seconds + tasks.start_wait_seconds, 0.5) AS p50,
    quantile_cont(tasks.launch_wait_seconds + tasks.start_wait_seconds, 0.95) AS p95
FROM silver_tasks AS tasks
INNER JOIN silver_jobs AS jobs USING (job_key)
INNER JOIN bounds ON tasks.cluster_id = bounds.cluster_id
WHERE
    tasks.requested_gpus > 0 AND tasks.launch_wait_seconds >= 0 AND tasks.start_wait_seconds >= 0
    AND jobs.submitted_at >= bounds.from_at AND jobs.submitted_at < bounds.until_at
    AND (getvariable('user') IS NULL OR coalesce(user_id, 'unknown') = getvariable('user'))
    AND (getvariable('group') IS NULL OR coalesce(group_id, user_id, 'unknown') = getvariable('group'))
"""

# What would have saved what, attempt by attempt. A GPU-hour is claimed by one advice at most: one that was held empty
# by the first, a lost one by the second or the third, one that was under-used by whichever of the rest saves most.
ADVICE = """
, prices AS (
    SELECT unnest(
        from_json(getvariable('prices')::JSON, '[{"gpu_type": "VARCHAR", "price": "DOUBLE"}]'), recursive := true
    )
),
lesser AS (
    SELECT cluster_id, arg_max(gpu_type, gpus) AS lesser_type
    FROM (
        SELECT cluster_id, gpu_type, sum(gpus) AS gpus FROM silver_capacity
        WHERE gpu_type IN (SELECT unnest(string_split(getvariable('lesser_types'), ',')))
        GROUP BY cluster_id, gpu_type
    )
    GROUP BY cluster_id
),
owners AS (
    SELECT
        job_key, job_id, user_id,
        -- Where the source knows no recurrence, a job recurs with its own tries alone.
        group_id IS DISTINCT FROM user_id AND group_id IS NOT NULL AS has_group,
        CASE
            WHEN group_id IS DISTINCT FROM user_id AND group_id IS NOT NULL THEN hash(cluster_id, group_id)
            ELSE hash(job_key)
        END AS recurs_as
    FROM silver_jobs
    WHERE
        (getvariable('user') IS NULL OR coalesce(user_id, 'unknown') = getvariable('user'))
        AND (getvariable('group') IS NULL OR coalesce(group_id, user_id, 'unknown') = getvariable('group'))
),
-- Without the words of its job: there are many more attempts than jobs.
owned AS NOT MATERIALIZED (
    SELECT holdings.*, owners.recurs_as
    FROM silver_holdings AS holdings
    INNER JOIN owners ON holdings.job_key = owners.job_key
    WHERE holdings.held_seconds > 0
),
held AS (
    SELECT
        holdings.cluster_id, holdings.job_key, holdings.instance_key, holdings.attempt, holdings.recurs_as,
        coalesce(capacity.gpu_type, holdings.gpu_type, 'unknown') AS gpu_type, holdings.bucket, holdings.gpus,
        -- Not of nothing: the least of nothing and a number is that number.
        CASE WHEN holdings.used_gpus IS NOT NULL THEN least(holdings.used_gpus, holdings.gpus) END AS used_gpus,
        holdings.held_seconds / 3600 AS whole_hours, greatest(holdings.held_from, bounds.from_at) AS counted_from,
        (
            epoch(least(holdings.held_until, bounds.until_at)) - epoch(greatest(holdings.held_from, bounds.from_at))
        ) / 3600 AS hours
    FROM owned AS holdings
    INNER JOIN bounds
        ON
            holdings.cluster_id = bounds.cluster_id
            AND holdings.held_from < bounds.until_at AND holdings.held_until > bounds.from_at
    LEFT JOIN silver_capacity AS capacity ON holdings.machine_key = capacity.machine_key
    WHERE holdings.bucket != 'unobserved'
),
failing AS (
    SELECT recurs_as FROM held WHERE bucket = 'lost' GROUP BY recurs_as
    HAVING count(DISTINCT (job_key, attempt)) >= getvariable('failures')
),
-- A gang's attempts of one number are one try of its job.
tries AS (
    SELECT
        holdings.recurs_as, holdings.job_key, holdings.attempt, min(holdings.held_from) AS begun_at,
        max(holdings.held_until) AS ended_at, bool_or(holdings.bucket = 'lost') AS is_lost,
        bool_and(holdings.status = 'succeeded') AS has_succeeded
    FROM owned AS holdings
    SEMI JOIN failing ON holdings.recurs_as = failing.recurs_as
    GROUP BY holdings.recurs_as, holdings.job_key, holdings.attempt
),
-- A failure counts from its end on, until the next success ends.
events AS (
    SELECT recurs_as, job_key, attempt, ended_at AS happened_at, 0 AS is_begin, is_lost, has_succeeded
    FROM tries
    UNION ALL
    SELECT recurs_as, job_key, attempt, begun_at, 1, false, false
    FROM tries
    WHERE is_lost
),
rows_of_failures AS (
    SELECT
        *, sum(has_succeeded::INTEGER) OVER (
            PARTITION BY recurs_as ORDER BY happened_at, is_begin, has_succeeded ROWS UNBOUNDED PRECEDING
        ) AS successes
    FROM events
),
repeated AS (
    SELECT job_key, attempt
    FROM (
        SELECT
            job_key, attempt, is_begin, sum(is_lost::INTEGER) OVER (
                PARTITION BY recurs_as, successes ORDER BY happened_at, is_begin ROWS UNBOUNDED PRECEDING
            ) AS failures_before
        FROM rows_of_failures
    )
    WHERE is_begin = 1 AND failures_before >= getvariable('failures') - 1
),
recurring AS (
    SELECT recurs_as FROM owners WHERE has_group GROUP BY recurs_as HAVING count(*) >= getvariable('recurrences')
),
empty AS (
    SELECT *, 'release' AS kind, gpus * hours AS saved, 1.0 AS price_ratio FROM held WHERE bucket = 'idle'
),
lost AS (
    SELECT
        held.*, CASE WHEN repeated.job_key IS NULL THEN 'checkpoint' ELSE 'stop' END AS kind,
        gpus * hours * CASE
            WHEN repeated.job_key IS NULL THEN 1 - getvariable('checkpoint_hours') / 2 / whole_hours ELSE 1
        END AS saved,
        1.0 AS price_ratio
    FROM held
    LEFT JOIN repeated ON held.job_key = repeated.job_key AND held.attempt = repeated.attempt
    WHERE
        held.bucket = 'lost'
        AND (repeated.job_key IS NOT NULL OR held.whole_hours > getvariable('checkpoint_hours'))
),
-- What would run on a lesser type: it uses little, and what it keeps in memory fits.
fitting AS (
    SELECT held.instance_key, held.attempt
    FROM held
    INNER JOIN silver_instances AS instances
        ON held.instance_key = instances.instance_key AND held.attempt = instances.attempt
    INNER JOIN silver_instance_usage AS usage ON instances.worker_key = usage.worker_key
    WHERE
        held.bucket = 'used' AND held.used_gpus < getvariable('low_use') * held.gpus
        AND held.gpu_type IN (SELECT unnest(string_split(getvariable('scarce_types'), ',')))
        AND usage.peak_gpu_memory_bytes / ceil(held.gpus) < getvariable('lesser_bytes')
),
choices AS (
    SELECT
        held.*, dear.price, cheap.price AS lesser_price,
        greatest(held.gpus - getvariable('headroom') * held.used_gpus, 0) * held.hours AS fewer,
        held.gpus = 1 AND held.used_gpus < getvariable('shared_use') AND recurring.recurs_as IS NOT NULL
            AS is_shareable,
        fitting.instance_key IS NOT NULL AND lesser.lesser_type IS NOT NULL AS has_room_on_lesser
    FROM held
    LEFT JOIN fitting ON held.instance_key = fitting.instance_key AND held.attempt = fitting.attempt
    LEFT JOIN recurring ON held.recurs_as = recurring.recurs_as
    LEFT JOIN lesser ON held.cluster_id = lesser.cluster_id
    LEFT JOIN prices AS dear ON held.gpu_type = dear.gpu_type
    LEFT JOIN prices AS cheap ON lesser.lesser_type = cheap.gpu_type
    WHERE held.bucket = 'used'
),
under_used AS (
    SELECT
        * EXCLUDE (fewer, is_shareable, has_room_on_lesser, price, lesser_price, is_smaller),
        CASE WHEN is_smaller THEN 'smaller' WHEN is_shareable THEN 'share' ELSE 'fewer' END AS kind,
        CASE WHEN is_smaller THEN (gpus - used_gpus) * hours ELSE fewer END AS saved,
        -- All that was held is paid at the lesser price, not only what was left unused.
        CASE
            WHEN is_smaller THEN (price - lesser_price) / nullif(price, 0) * gpus / (gpus - used_gpus) ELSE 1.0
        END AS price_ratio
    FROM (
        SELECT
            *, has_room_on_lesser AND coalesce(
                gpus * hours * (price - lesser_price) >= fewer * price, true
            ) AS is_smaller
        FROM choices
    )
),
claims AS (
    FROM empty UNION ALL BY NAME FROM lost UNION ALL BY NAME FROM under_used
),
jobs AS (
    SELECT
        kind, cluster_id, job_key, min(counted_from) AS counted_from,
        CASE WHEN min(claims.gpu_type) = max(claims.gpu_type) THEN min(claims.gpu_type) ELSE 'several' END AS gpu_type,
        count(*) AS attempts, sum(gpus * hours) AS held, sum(used_gpus * hours) AS used, sum(saved) AS saved,
        sum(saved * price_ratio * prices.price) AS cost,
        sum(CASE WHEN price_ratio * prices.price IS NULL THEN saved ELSE 0 END) AS unpriced
    FROM claims
    LEFT JOIN prices ON claims.gpu_type = prices.gpu_type
    WHERE saved > 0
    GROUP BY kind, cluster_id, job_key
),
totals AS (
    SELECT
        kind, count(*) AS jobs, count(DISTINCT user_id) AS users, sum(saved) AS all_saved, sum(cost) AS all_cost,
        sum(unpriced) AS all_unpriced
    FROM jobs
    INNER JOIN owners USING (job_key)
    GROUP BY kind
),
shown AS (
    FROM jobs
    INNER JOIN owners USING (job_key)
    SELECT jobs.*, owners.job_id, owners.user_id
    QUALIFY row_number() OVER (PARTITION BY kind ORDER BY saved DESC, job_id) <= getvariable('most')
)
SELECT shown.* EXCLUDE (job_key, counted_from), totals.* EXCLUDE (kind), span.dt, lesser.lesser_type
FROM shown
INNER JOIN totals ON shown.kind = totals.kind
LEFT JOIN span
    ON
        shown.cluster_id = span.cluster_id
        AND shown.counted_from >= span.started_at AND shown.counted_from < span.ended_at
LEFT JOIN lesser ON shown.cluster_id = lesser.cluster_id
ORDER BY shown.kind, saved DESC, job_id
"""
