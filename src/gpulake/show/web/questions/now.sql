{# The last moment under observation: machines, what runs and what waits. #}
{% set of_now %}i.status = 'running' AND i.ended_at IS NULL{% endset %}
{% set machines %}
WITH held AS (
    SELECT i.machine_key, sum(i.gpus) AS gpus, count(DISTINCT i.job_key) AS jobs
    FROM silver_instances AS i WHERE {{ of_now }} AND {cluster:i.cluster_id} GROUP BY i.machine_key
),
conditions AS (
    SELECT s.machine_key, arg_max(s.condition, s.started_at) AS condition, arg_max(s.reason, s.started_at) AS reason
    FROM silver_machine_states AS s JOIN silver_clusters AS c USING (cluster_id)
    WHERE s.started_at <= c.observed_until AND s.ended_at >= c.observed_until GROUP BY s.machine_key
),
outages AS (
    SELECT DISTINCT o.machine_key FROM silver_outages AS o JOIN silver_clusters AS c USING (cluster_id)
    WHERE o.started_at <= c.observed_until AND o.ended_at >= c.observed_until
)
SELECT
    m.machine_id, m.cluster_id, m.gpu_type, m.gpus, least(coalesce(held.gpus, 0), m.gpus) AS held_gpus,
    coalesce(held.jobs, 0) AS running_jobs,
    CASE
        WHEN outages.machine_key IS NOT NULL THEN 'down'
        WHEN conditions.condition NOT IN ('up', 'unknown', 'reserved') THEN conditions.condition
        WHEN held.gpus >= m.gpus THEN 'full' WHEN held.gpus > 0 THEN 'partly held' ELSE 'free'
    END AS state,
    CASE WHEN state IN ('free', 'partly held') THEN m.gpus - held_gpus ELSE 0 END AS free_gpus, conditions.reason
FROM silver_machines AS m
LEFT JOIN held USING (machine_key) LEFT JOIN conditions USING (machine_key) LEFT JOIN outages USING (machine_key)
WHERE m.gpus > 0 AND m.machine_id != '{{ pool }}' AND {cluster:m.cluster_id} AND {gpu_type:m.gpu_type}
{% endset %}

-- question: now_machines
-- title: Machines at the last moment
-- order: cluster_id, gpu_type, machine_id
-- about: At the end of the time under observation. Full: all GPUs are held by running jobs. Free GPUs are those of
--     machines that take jobs.
{{ machines }}

-- question: now_numbers
-- title: The last moment in numbers
-- order: place
-- about: At the end of the time under observation of the cluster.
WITH machines AS ({{ machines }}),
sums AS (
    SELECT count(*) AS machines, sum(gpus) AS gpus, sum(held_gpus) AS held, sum(free_gpus) AS free,
        count(*) FILTER (state NOT IN ('full', 'partly held', 'free')) AS out FROM machines
),
jobs AS (
    SELECT count(*) FILTER (status = 'running') AS running, count(*) FILTER (status = 'waiting') AS waiting
    FROM silver_jobs WHERE {cluster} [[gpu_type AND false]]
),
time AS (
    SELECT strftime(max(observed_until) AT TIME ZONE 'UTC', '%Y-%m-%d %H:%M') AS ended FROM silver_clusters WHERE {cluster}
)
SELECT 1 AS place, 'as of' AS label, NULL::DOUBLE AS value, '' AS unit, ended AS words, 'UTC, the last event' AS note,
    '' AS level, '/rows/observed' AS link FROM time WHERE ended IS NOT NULL
UNION ALL SELECT 2, 'free GPUs', free, 'count', '', format('of {:,.0f}', gpus::DOUBLE), '', '' FROM sums WHERE machines > 0
UNION ALL SELECT 3, 'held GPUs', held, 'count', '', 'by running jobs', '', '' FROM sums WHERE machines > 0
UNION ALL SELECT 4, 'machines out', out, 'count', '', format('of {:,d}: down, drained or draining', machines),
    CASE WHEN out > 0 THEN 'bad' ELSE 'good' END, '/machines' FROM sums WHERE machines > 0
UNION ALL SELECT 5, 'running jobs', running, 'count', '', '', '', '/jobs?status=running' FROM jobs WHERE running > 0
UNION ALL SELECT 6, 'pending jobs', waiting, 'count', '', '', '', '/jobs?status=waiting' FROM jobs WHERE waiting > 0

{# Columns that only the jobs of a page have. #}
{% macro of_job(names) %}
{% for name in names %}
-- sort {{ name }}
SELECT job_key, {{ name }} FROM silver_jobs
{% endfor %}
{% endmacro %}

-- question: now_running
-- title: Running jobs
-- order: gpus DESC NULLS LAST, started_at, job_key
-- key: job_key
-- about: At the end of the time under observation.
SELECT i.job_key, sum(i.gpus) AS gpus, min(i.started_at) AS started_at
FROM silver_instances AS i WHERE {{ of_now }} AND {cluster:i.cluster_id} AND {gpu_type:i.gpu_type} GROUP BY i.job_key
-- details
SELECT job_key, j.job_id, j.cluster_id, j.user_id, j.account_id, p.gpus,
    epoch(c.observed_until - p.started_at) AS ran_seconds, m.machines, p.started_at
FROM page AS p JOIN silver_jobs AS j USING (job_key) JOIN silver_clusters AS c ON c.cluster_id = j.cluster_id
JOIN (
    SELECT job_key, count(DISTINCT i.machine_key) AS machines
    FROM silver_instances AS i WHERE {{ of_now }} AND job_key IN (SELECT job_key FROM page) GROUP BY job_key
) AS m USING (job_key)
{{ of_job(("job_id", "cluster_id", "user_id", "account_id")) }}
-- sort machines
SELECT job_key, count(DISTINCT i.machine_key) AS machines FROM silver_instances AS i WHERE {{ of_now }} GROUP BY job_key
-- sort ran_seconds
SELECT job_key, epoch(any_value(c.observed_until) - min(i.started_at)) AS ran_seconds
FROM silver_instances AS i JOIN silver_clusters AS c USING (cluster_id) WHERE {{ of_now }} GROUP BY job_key

{% set types %}SELECT job_key, min(gpu_type) AS gpu_type FROM silver_tasks GROUP BY job_key{% endset %}
{% set reasons %}SELECT job_key, arg_max(reason, submitted_at) AS reason FROM silver_waits WHERE is_waiting{% endset %}

-- question: now_pending
-- title: Pending jobs
-- order: waited_seconds DESC NULLS LAST, cluster_id, job_id
-- key: job_key
-- about: Still in the queue at the end of the time under observation. The reason is the scheduler's, if it gave one.
SELECT j.job_key, j.job_id, j.cluster_id, epoch(c.observed_until - j.submitted_at) AS waited_seconds
FROM silver_jobs AS j JOIN silver_clusters AS c USING (cluster_id)
WHERE j.status = 'waiting' AND {cluster:j.cluster_id}
    [[gpu_type AND j.job_key IN (SELECT job_key FROM ({{ types }}) WHERE {gpu_type})]]
-- details
SELECT job_key, p.job_id, p.cluster_id, j.user_id, j.account_id, requested.gpus, p.waited_seconds, reasons.reason,
    requested.gpu_type, j.submitted_at
FROM page AS p JOIN silver_jobs AS j USING (job_key)
LEFT JOIN (
    {{ reasons }} AND job_key IN (SELECT job_key FROM page) GROUP BY job_key
) AS reasons USING (job_key)
LEFT JOIN (
    SELECT job_key, sum(requested_gpus * planned_instances) AS gpus, min(gpu_type) AS gpu_type
    FROM silver_tasks WHERE job_key IN (SELECT job_key FROM page) GROUP BY job_key
) AS requested USING (job_key)
{{ of_job(("user_id", "account_id", "submitted_at")) }}
-- sort gpus
SELECT job_key, sum(requested_gpus * planned_instances) AS gpus FROM silver_tasks GROUP BY job_key
-- sort gpu_type
{{ types }}
-- sort reason
{{ reasons }} GROUP BY job_key
