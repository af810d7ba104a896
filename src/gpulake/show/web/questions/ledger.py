"""Where the GPU-hours went."""

from __future__ import annotations

from gpulake.show.web.questions import Question

BUCKETS = ("productive", "under_used", "idle", "lost", "unobserved", "unallocated", "down")
MOST_HOURLY_DAYS = 7
SUMS = ", ".join(f"sum({bucket}_gpu_hours) AS {bucket}" for bucket in BUCKETS)

QUESTIONS = (
    Question(
        name="ledger_by_day",
        title="The ledger by day",
        sql=f"""
SELECT dt AS day, {SUMS}, sum(capacity_gpu_hours) AS capacity
FROM gold_ledger_hourly WHERE {{days}} AND {{cluster}} AND {{gpu_type}} GROUP BY dt
""",
        order="day",
        about="In GPU-hours. Each GPU-hour of capacity is in one bucket: those of a day sum to its capacity.",
    ),
    Question(
        name="ledger",
        title="The ledger over time",
        sql=f"""
WITH chosen AS (
    SELECT ledger.*, ledger.started_at AT TIME ZONE clusters.time_zone AS hour_at
    FROM gold_ledger_hourly AS ledger
    INNER JOIN silver_clusters AS clusters USING (cluster_id)
    WHERE {{days}} AND {{cluster}} AND {{gpu_type}}
),
grain AS (
    SELECT max(dt) - min(dt) < {MOST_HOURLY_DAYS} AS is_hourly FROM chosen
)
SELECT
    CASE WHEN is_hourly THEN hour_at ELSE dt::TIMESTAMP END AS began_at, dt AS day,
    CASE WHEN is_hourly THEN 'hour' ELSE 'day' END AS lasted, {SUMS}, sum(capacity_gpu_hours) AS capacity
FROM chosen
CROSS JOIN grain
GROUP BY ALL
""",
        order="began_at",
        about=(
            "In GPU-hours, by day; by hour where at most 7 days are shown. Times are those of the cluster's own zone. "
            "Each GPU-hour of capacity is in one bucket: together they are the capacity."
        ),
    ),
)
