{# Jobs: searched, filtered, counted. #}
{% from "parts.sql" import inferred_words, only_range, range_words, sensed %}
{% set failed %}('failed', 'node_fail'){% endset %}
{% set has_ended %}j.ended_at IS NOT NULL AND j.status NOT IN ('running', 'waiting'){% endset %}
{% set status %}
[[status AND (
    j.status = getvariable('status') OR (getvariable('status') = 'failed' AND j.status IN {{ failed }})
)]]
{% endset %}
{# Days of the cluster's time zone, by the submission or the end of a job. #}
{% macro on_days(at) %}
[[from JOIN (SELECT cluster_id, min(started_at) AS begins_at FROM silver_days WHERE {days} GROUP BY cluster_id) b
    ON b.cluster_id = j.cluster_id AND j.{{ at }} >= b.begins_at]]
[[to JOIN (SELECT cluster_id, max(ended_at) AS ends_at FROM silver_days WHERE {days} GROUP BY cluster_id) e
    ON e.cluster_id = j.cluster_id AND j.{{ at }} < e.ends_at]]
{% endmacro %}
{# The search text is not a pattern. #}
{% set kept %}
SELECT j.* FROM silver_jobs j
{{ on_days("submitted_at") }}
WHERE {cluster:j.cluster_id}
{{ status }}
[[user AND j.user_id = getvariable('user')]]
[[group AND j.group_id = getvariable('group')]]
[[search AND (starts_with(j.job_id, getvariable('search')) OR starts_with(j.user_id, getvariable('search'))
    OR starts_with(j.group_id, getvariable('search')) OR starts_with(j.account_id, getvariable('search'))
    OR starts_with(j.workload, getvariable('search')))]]
[[gpu_type AND j.job_key IN (SELECT job_key FROM silver_tasks WHERE {gpu_type})]]
[[least_gpus AND j.job_key IN (
    SELECT job_key FROM silver_tasks GROUP BY job_key
    HAVING sum(requested_gpus * planned_instances) >= getvariable('least_gpus')::DOUBLE)]]
{% endset %}
{% set gpu_type %}
CASE WHEN min(gpu_type) = max(gpu_type) THEN min(gpu_type) ELSE min(gpu_type) || ' and others' END AS gpu_type
{% endset %}
{% set spent = {
    "held_gpu_hours": "sum(held_gpu_hours)",
    "lost_gpu_hours": "sum(lost_gpu_hours)",
    "lost_at_least_gpu_hours": "sum(lost_at_least_gpu_hours)",
    "inferred_lost_gpu_hours": "sum(inferred_lost_gpu_hours)",
    "efficiency_ratio": "sum(used_gpu_hours) / nullif(sum(" ~ sensed ~ "), 0)",
} %}
{# What completes the jobs of a page, and what looks up a column that only this has. #}
{% macro completed() %}
-- details
SELECT
    job_key, p.job_id, p.cluster_id, p.user_id, j.group_id, j.workload, p.status, t.gpus, t.gpu_type, p.submitted_at,
    p.waited_seconds, p.ran_seconds, h.{{ spent | join(", h.") }}
FROM page p JOIN silver_jobs j USING (job_key)
LEFT JOIN (
    SELECT job_key, sum(requested_gpus * planned_instances) AS gpus, {{ gpu_type }}
    FROM silver_tasks WHERE job_key IN (SELECT job_key FROM page) GROUP BY job_key
) t USING (job_key)
LEFT JOIN (
    SELECT job_key
    {% for name, value in spent.items() %}, {{ value }} AS {{ name }}{% endfor +%}
    FROM gold_job_efficiency_daily WHERE job_key IN (SELECT job_key FROM page) GROUP BY job_key
) h USING (job_key)
-- sort group_id
SELECT job_key, group_id FROM silver_jobs
-- sort workload
SELECT job_key, workload FROM silver_jobs
-- sort gpus
SELECT job_key, sum(requested_gpus * planned_instances) AS gpus FROM silver_tasks GROUP BY job_key
-- sort gpu_type
SELECT job_key, {{ gpu_type }} FROM silver_tasks GROUP BY job_key
{% for name, value in spent.items() %}
-- sort {{ name }}
SELECT job_key, {{ value }} AS {{ name }} FROM gold_job_efficiency_daily GROUP BY job_key
{% endfor %}
{% endmacro %}
{% set found %}
SELECT job_key, cluster_id, job_id, user_id, status, submitted_at, launch_wait_seconds AS waited_seconds,
    (epoch_us(ended_at) - epoch_us(started_at)) / 1e6 AS ran_seconds
{% endset %}
{% set about %}
Waited: from submission to launch; ran: from launch to end. GPU-hours are those held;
--     efficiency is the share used of what sensors measured of attempts that were not lost. Lost is an upper bound; at
--     least: what came after a known checkpoint; inferred: based on inferred times.
{%- endset %}

-- question: jobs
-- title: Jobs
-- order: submitted_at DESC NULLS LAST, job_id, cluster_id
-- options: search, jobs_status, jobs_user, jobs_group, least_gpus
-- key: job_key
-- about: Days are those of the submission. {{ about }}
{{ found }} FROM ({{ kept }})
{{ completed() }}

-- question: ended_jobs
-- title: Jobs that ended
-- order: submitted_at DESC NULLS LAST, job_id, cluster_id
-- options: jobs_status
-- key: job_key
-- about: Days are those of the end, of any type of GPU. {{ about }}
{{ found }} FROM (
    SELECT j.* FROM silver_jobs j
{{ on_days("ended_at") }}
WHERE {{ has_ended }} AND {cluster:j.cluster_id}
{{ status }})
{{ completed() }}

-- question: jobs_summary
-- title: Jobs in numbers
-- order: rank
-- options: search, jobs_status, jobs_user, jobs_group, least_gpus
-- about: Failed: of the jobs that ended, those that failed, also by their node; without those that timed out or were
--     interrupted. GPU-hours of these jobs, on any day.
{% set lost_share = range_words(
    "100 * lost_at_least / nullif(held, 0)", "100 * lost / nullif(held, 0)", "{:.1f}%"
) %}
WITH kept AS ({{ kept }}),
counted AS (
    SELECT count(*) AS jobs, count(*) FILTER ({{ has_ended }}) AS ended,
        count(*) FILTER ({{ has_ended }} AND j.status IN {{ failed }}) AS failed FROM kept j
),
spent AS (
    SELECT coalesce(sum(held_gpu_hours), 0) AS held, coalesce(sum(lost_gpu_hours), 0) AS lost,
        coalesce(sum(lost_at_least_gpu_hours), 0) AS lost_at_least,
        coalesce(sum(inferred_lost_gpu_hours), 0) AS inferred_lost
    FROM gold_job_efficiency_daily
    WHERE true 
{# Without filters no job needs to be looked up. #}
{% for name in ("from", "to", "cluster", "gpu_type", "search", "status", "user", "group", "least_gpus") %}
    [[{{ name }} AND job_key IN (SELECT job_key FROM kept)]]
{% endfor %}
)
SELECT 1 AS rank, 'jobs' AS label, jobs::DOUBLE AS value, 'jobs' AS unit, format('{:,} ended', ended) AS note,
    '' AS level, '' AS words FROM counted
UNION ALL
SELECT 2, 'failed', failed / nullif(ended, 0), 'failed_ratio', format('{:,} of those that ended', failed),
    CASE WHEN failed > 0.25 * ended THEN 'bad' ELSE '' END, '' FROM counted
UNION ALL
SELECT 3, 'GPU-hours', held, 'held', 'held by their attempts', '', '' FROM spent
UNION ALL
SELECT 4, 'lost', lost, 'lost', coalesce({{ lost_share }} || ' of those held', '')
        || {{ inferred_words("inferred_lost", "lost") }},
    CASE WHEN lost > 0.1 * held THEN 'bad' ELSE '' END, {{ only_range("lost_at_least", "lost", "{:,.0f}") }} FROM spent

-- question: jobs_by_status
-- title: Jobs by day of submission and status
-- order: day, status
-- options: search, jobs_status, jobs_user, jobs_group, least_gpus
-- about: Days are those of each cluster's time zone.
WITH kept AS ({{ kept }}),
-- Jobs are first counted by quarter of an hour, the smallest offset of a time zone, and then assigned to days.
quarters AS (
    SELECT cluster_id, status, make_timestamptz((epoch_ms(submitted_at) // 900000) * 900000000) AS begins_at,
        count(*) AS jobs
    FROM kept WHERE submitted_at IS NOT NULL GROUP BY ALL
)
SELECT d.dt AS day, q.status, sum(q.jobs)::BIGINT AS jobs
FROM quarters q JOIN silver_days d
ON q.cluster_id = d.cluster_id AND q.begins_at >= d.started_at AND q.begins_at < d.ended_at
GROUP BY d.dt, q.status
