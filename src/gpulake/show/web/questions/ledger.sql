{# Where the GPU-hours went. #}
{% from "parts.sql" import lost_at_most, sums %}
{% set most_hourly_days = 7 %}
{% set notes = ("lost", "lost_at_least", "inferred_lost") %}  {# besides the buckets: what was lost, and its bounds #}

-- question: observed
-- title: Time under observation
-- order: cluster_id
-- about: Shares of capacity are shares of this time. Basis: settings, events (all of them), or trimmed (without a few
--     stragglers). Unknown demand: the share of attempts whose request is not known.
{{ observed }} WHERE {cluster}

-- question: ledger_buckets
-- title: The ledger in numbers
-- order: cluster_id, rank
-- about: Over all of the time under observation. At least and at most: a bucket of use may have any part of what is
--     unobserved; a lost one may have lost only what came after a known checkpoint. Sensed: of what sensors measured.
--     Inferred: the share that is based on inferred times.
SELECT
    bucket, gpu_hours, gpu_hours_at_least, gpu_hours_at_most, capacity_ratio, sensed_ratio, inferred_ratio, meaning,
    rests_on, observed_from, observed_until, cluster_id, rank
FROM gold_ledger_buckets WHERE {cluster}

-- question: ledger_by_day
-- title: The ledger by day
-- order: day
-- about: In GPU-hours, within the time under observation. Each GPU-hour of capacity is in one bucket: those of a day
--     sum to its capacity. {{ lost_at_most }}
SELECT dt AS day, {{ sums(buckets + notes) }}, sum(capacity_gpu_hours) AS capacity
FROM gold_ledger_hourly WHERE {days} AND {cluster} AND {gpu_type} GROUP BY dt

-- question: ledger
-- title: The ledger over time
-- order: began_at
-- about: In GPU-hours, by day; by hour where at most {{ most_hourly_days }} days are shown. Times are those of the
--     cluster's time zone. Each GPU-hour of capacity is in one bucket: together they are the capacity of the time under
--     observation. Failed, timed out and interrupted are upper bounds of what was lost.
--     Partial: not all of the day was under observation.
WITH chosen AS (
    SELECT ledger.*, ledger.started_at AT TIME ZONE clusters.time_zone AS hour_at,
        coalesce(days.observed_seconds < epoch(days.ended_at) - epoch(days.started_at) - 1, false) AS is_partial
    FROM gold_ledger_hourly AS ledger
    INNER JOIN silver_clusters AS clusters USING (cluster_id)
    LEFT JOIN silver_days AS days USING (cluster_id, dt)
    WHERE {days} AND {cluster} AND {gpu_type}
),
grain AS (
    SELECT max(dt) - min(dt) < {{ most_hourly_days }} AS is_hourly FROM chosen
)
SELECT
    CASE WHEN is_hourly THEN hour_at ELSE dt::TIMESTAMP END AS began_at, dt AS day,
    CASE WHEN is_hourly THEN 'hour' ELSE 'day' END AS lasted, {{ sums(buckets + notes) }},
    sum(capacity_gpu_hours) AS capacity, bool_or(is_partial AND NOT is_hourly) AS is_partial
FROM chosen
CROSS JOIN grain
GROUP BY ALL
