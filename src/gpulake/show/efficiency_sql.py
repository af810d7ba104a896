"""The queries of the efficiency card. Each follows SPAN, the days of the clusters that the card is about."""

from __future__ import annotations

from gpulake.core.ledger import BUCKETS, HELD
from gpulake.show import observed

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
    "silver_overcommits",
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
# The most similar names, of maybe thousands.
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

# The last days of each cluster: clusters may be observed at different times.
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

# A user or a group is of the clusters on which it held something.
WHOSE = """(getvariable('user') IS NULL OR user_id = getvariable('user'))
    AND (getvariable('group') IS NULL OR group_id = getvariable('group'))"""
OBSERVED = f"""
SELECT * FROM ({observed.OBSERVED})
SEMI JOIN (SELECT cluster_id FROM gold_ledger_daily SEMI JOIN span USING (cluster_id, dt) WHERE {WHOSE})
USING (cluster_id)
ORDER BY cluster_id
"""

NOTES = ("lost", "lost_at_least", "inferred", "inferred_lost")


def _sums(names: tuple[str, ...]) -> str:
    return ", ".join(f"sum({name}_gpu_hours) AS {name}" for name in names)


# By day and GPU type: all of the clusters' capacity. Busy is computed as in gold_energy_daily.
CLUSTER_DAYS = f"""
, ledger AS (
    SELECT cluster_id, dt, gpu_type, {_sums(("capacity", *BUCKETS, *NOTES))}
    FROM gold_ledger_daily
    GROUP BY cluster_id, dt, gpu_type
)
SELECT
    ledger.dt, ledger.gpu_type, {", ".join(f"sum(ledger.{name}) AS {name}" for name in ("capacity", *BUCKETS, *NOTES))},
    sum(energy.busy_gpu_hours) AS busy
FROM ledger
SEMI JOIN span USING (cluster_id, dt)
INNER JOIN gold_energy_daily AS energy USING (cluster_id, dt, gpu_type)
GROUP BY ledger.dt, ledger.gpu_type
ORDER BY ledger.dt, ledger.gpu_type
"""

# By day and GPU type: what a user or a group held, as the ledger has it. Attempts without a sensor are as busy as
# gold_energy_daily assumes.
HOLDER_DAYS = f"""
, usual AS (
    SELECT cluster_id, dt, any_value(assumed_busy_ratio) AS busy_ratio FROM gold_energy_daily GROUP BY cluster_id, dt
)
SELECT
    ledger.dt, ledger.gpu_type, {_sums((*HELD, *NOTES))},
    sum(used_gpu_hours + (lost_gpu_hours + unobserved_gpu_hours) * coalesce(usual.busy_ratio, 1)) AS busy
FROM gold_ledger_daily AS ledger
SEMI JOIN span USING (cluster_id, dt)
LEFT JOIN usual USING (cluster_id, dt)
WHERE {WHOSE}
GROUP BY ledger.dt, ledger.gpu_type
ORDER BY ledger.dt, ledger.gpu_type
"""

_WASTED = """
    sum(idle_gpu_hours + lost_gpu_hours) AS wasted, sum(idle_gpu_hours + lost_at_least_gpu_hours) AS wasted_at_least"""

# The users who waste most, and the user of the card. Jobs are counted for these only.
USERS = f"""
, users AS (
    SELECT user_id, sum(capacity_gpu_hours) AS held, {_sums((*HELD, *NOTES))}, {_WASTED}
    FROM gold_ledger_daily
    SEMI JOIN span USING (cluster_id, dt)
    WHERE user_id IS NOT NULL AND (getvariable('group') IS NULL OR group_id = getvariable('group'))
    GROUP BY user_id
    HAVING held > 0
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

JOBS_HELD = f"""
SELECT
    count(DISTINCT job_key) AS jobs,
    count(DISTINCT CASE WHEN status IN ('failed', 'node_fail') THEN job_key END) AS failed_jobs,
    count(DISTINCT user_id) AS users
FROM gold_job_efficiency_daily
SEMI JOIN span USING (cluster_id, dt)
WHERE {WHOSE}
"""

# As each job claims them: a job has no share in what others claimed of its GPUs.
JOBS = f"""
SELECT
    any_value(job_id) AS job_id, any_value(user_id) AS user_id, cluster_id,
    CASE WHEN min(gpu_type) = max(gpu_type) THEN min(gpu_type) ELSE 'several' END AS gpu_type,
    any_value(status) AS status, min(dt) AS dt, {_sums(("held", *HELD, *NOTES))}, {_WASTED}
FROM gold_job_efficiency_daily
SEMI JOIN span USING (cluster_id, dt)
WHERE {WHOSE}
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
