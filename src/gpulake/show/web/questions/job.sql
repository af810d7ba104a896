{# One job: its attempts, what it requested and used, the telemetry of its GPUs, and its neighbours. #}
{% from "parts.sql" import inferred_words, model_words, only_range, sensed %}
{% set most_points = 500 %}  {# of a figure of telemetry, over all its GPUs #}
{% set job_rows %}SELECT * FROM silver_jobs WHERE job_id = getvariable('job') AND {cluster}{% endset %}
{% set times %}
WITH this_job AS MATERIALIZED ({{ job_rows }}),
attempts AS MATERIALIZED (
    SELECT i.job_key, i.machine_key, min(coalesce(i.started_at, o.started_at)) AS begins_at,
        max(coalesce(i.ended_at, o.ended_at, c.observed_until)) AS ends_at
    FROM silver_instances i JOIN this_job o USING (job_key) JOIN silver_clusters c ON c.cluster_id = o.cluster_id
    WHERE i.machine_key IS NOT NULL GROUP BY i.job_key, i.machine_key
)
{% endset %}

-- question: job_summary
-- title: A job in numbers
-- order: cluster_id, rank
-- options: job
WITH this_job AS MATERIALIZED ({{ job_rows }}),
requested AS (
    SELECT job_key, sum(requested_gpus * planned_instances) AS gpus, min(gpu_type) AS gpu_type
    FROM silver_tasks WHERE job_key IN (SELECT job_key FROM this_job) GROUP BY job_key
),
spent AS (
    SELECT job_key, sum(held_gpu_hours) AS held, sum(lost_gpu_hours) AS lost, sum(used_gpu_hours) AS used,
        sum({{ sensed }}) AS sensed, sum(inferred_gpu_hours) AS inferred, sum(lost_at_least_gpu_hours) AS lost_at_least,
        sum(inferred_lost_gpu_hours) AS inferred_lost
    FROM gold_job_efficiency_daily WHERE job_key IN (SELECT job_key FROM this_job) GROUP BY job_key
),
stretches AS (
    SELECT job_key, ended_at, greatest(epoch(ended_at), before) - greatest(epoch(started_at), before) AS seconds
    FROM (
        SELECT job_key, started_at, ended_at, coalesce(max(epoch(ended_at)) OVER (
            PARTITION BY job_key ORDER BY started_at, ended_at ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
        ), 0) AS before
        FROM silver_instances WHERE job_key IN (SELECT job_key FROM this_job) AND started_at IS NOT NULL
    )
),
ran AS (SELECT job_key, sum(seconds) AS ran FROM stretches GROUP BY job_key HAVING count(*) = count(ended_at)),
job AS (
    SELECT * FROM this_job LEFT JOIN requested USING (job_key) LEFT JOIN spent USING (job_key) LEFT JOIN ran USING (job_key)
)
SELECT 1 AS rank, cluster_id, 'status' AS label, NULL::DOUBLE AS value, '' AS unit, status AS words,
    'submitted ' || strftime(submitted_at AT TIME ZONE 'UTC', '%Y-%m-%d %H:%M') || ' UTC' AS note,
    CASE WHEN status = 'succeeded' THEN 'good' WHEN status IN ('running', 'waiting', 'cancelled') THEN '' ELSE 'bad' END
    AS level, '' AS link FROM job
UNION ALL SELECT 2, cluster_id, 'user', NULL, '', user_id, concat_ws(' · ', group_id, account_id, workload), '',
    '/user?user=' || url_encode(user_id) || '&cluster=' || url_encode(cluster_id) FROM job
UNION ALL SELECT 4, cluster_id, 'GPUs', gpus, 'gpus', '', concat_ws(' · ', gpu_type, {{ model_words }}), '', ''
FROM job LEFT JOIN silver_gpu_types AS types USING (gpu_type)
UNION ALL SELECT 5, cluster_id, 'waited', launch_wait_seconds, 'wait_seconds', '', 'from submission to launch', '', ''
FROM job
UNION ALL SELECT 6, cluster_id, 'ran', coalesce(ran, epoch(ended_at - started_at)), 'run_seconds', '',
    'without the time between its attempts', '', '' FROM job
UNION ALL SELECT 7, cluster_id, 'GPU-hours', held, 'held_gpu_hours', '', CASE WHEN inferred > 0
    THEN format('{:.1f} of them inferred', inferred) ELSE 'held by its attempts' END, '', '' FROM job
UNION ALL SELECT 8, cluster_id, 'efficiency', used / nullif(sensed, 0), 'efficiency_ratio', '',
    CASE WHEN sensed > 0 THEN format('used, of the {:.0f}% of held that sensors measured', 100 * sensed / held)
        WHEN held > 0 THEN 'nothing but what was lost, or what no sensor measured' ELSE '' END, '', ''
FROM job
UNION ALL SELECT 9, cluster_id, 'lost', lost, 'lost_gpu_hours', {{ only_range("lost_at_least", "lost", "{:,.1f}") }},
    'GPU-hours' || {{ inferred_words("inferred_lost", "lost") }}, CASE WHEN lost > 0 THEN 'bad' ELSE '' END, '' FROM job

-- question: job_facts
-- title: What a job asked for, held, used and cost
-- order: place
-- options: job
-- about: The facts of gpulake report job. Empty if several clusters have a job of that id, until one is chosen.
SELECT * FROM computed

-- question: job_changes
-- title: What to change about a job
-- order: place
-- options: job
-- about: Each with the figures that it rests on; only of what was measured.
SELECT * FROM computed

-- question: job_waits
-- title: Why a job waited
-- order: cluster_id, run, wait_seconds DESC, reason
-- options: job
-- about: By the reasons that Slurm gave while it waited; docs/tables.md says what a reason rests on.
SELECT run, reason, wait_seconds, basis, requested_gpus, partition_id, qos_id, submitted_at, cluster_id
FROM silver_waits WHERE job_key IN (SELECT job_key FROM ({{ job_rows }}))

-- question: job_peers
-- title: A job against its own past and its peers
-- order: cluster_id, place
-- options: job
-- about: Medians; failed, timed out or lost to a node as a share of jobs. Efficiency: used, of what sensors measured.
WITH this_job AS MATERIALIZED ({{ job_rows }}),
near AS MATERIALIZED (
    SELECT n.job_key, n.cluster_id, sum(t.requested_gpus * t.planned_instances) AS gpus
    FROM silver_jobs AS n
    JOIN this_job AS o ON n.cluster_id = o.cluster_id AND abs(epoch(n.submitted_at - o.submitted_at)) <= 7 * 86400
    JOIN silver_tasks AS t ON t.job_key = n.job_key
    GROUP BY ALL
),
compared AS MATERIALIZED (
    SELECT 1 AS place, 'this job' AS whose, job_key FROM this_job
    {% for place, kind in ((2, "group"), (3, "user")) %}
    UNION ALL
    SELECT {{ place }}, 'earlier jobs of {{ kind }} ' || o.{{ kind }}_id, j.job_key FROM silver_jobs AS j
    JOIN this_job AS o ON j.cluster_id = o.cluster_id AND j.{{ kind }}_id = o.{{ kind }}_id AND j.submitted_at < o.submitted_at
    {% endfor %}
    UNION ALL
    SELECT 4, format('others within a week of {:g} GPUs', mine.gpus), near.job_key FROM near
    JOIN near AS mine ON mine.cluster_id = near.cluster_id AND mine.gpus = near.gpus AND mine.job_key != near.job_key
    WHERE mine.job_key IN (SELECT job_key FROM this_job)
),
spent AS (
    SELECT job_key, sum(held_gpu_hours) AS held, sum(used_gpu_hours) AS used, sum({{ sensed }}) AS sensed
    FROM gold_job_efficiency_daily WHERE job_key IN (SELECT job_key FROM compared) GROUP BY job_key
)
SELECT c.whose, count(*) AS jobs, avg((j.status IN ('failed', 'timeout', 'node_fail'))::INTEGER) AS failed_ratio,
    median(j.launch_wait_seconds) AS wait_seconds, median(epoch(j.ended_at - j.started_at)) AS ran_seconds,
    median(s.held) AS held_gpu_hours, sum(s.used) / nullif(sum(s.sensed), 0) AS efficiency_ratio, j.cluster_id, c.place
FROM compared AS c JOIN silver_jobs AS j USING (job_key) LEFT JOIN spent AS s USING (job_key)
GROUP BY ALL

-- question: job_attempts
-- title: Attempts of a job
-- order: coalesce(held_from, started_at) NULLS LAST, task_name, instance_id, attempt, machine_id
-- options: job
-- about: One run of one instance on one machine. Where the source lacks a start or an end, held is inferred. Lost is at
--     most what it held since lost_from: since the last checkpoint, if one is known.
WITH this_job AS MATERIALIZED ({{ job_rows }}),
attempts AS MATERIALIZED (SELECT * FROM silver_instances WHERE job_key IN (SELECT job_key FROM this_job)),
held AS (SELECT * FROM silver_holdings WHERE job_key IN (SELECT job_key FROM this_job)),
used AS (SELECT * FROM silver_instance_usage WHERE worker_key IN (SELECT worker_key FROM attempts))
SELECT t.cluster_id, t.task_name, t.attempt, t.status, coalesce(m.machine_id, c.machine_id) AS machine_id,
    t.started_at, t.ended_at,
    t.run_seconds AS ran_seconds, h.held_from, h.held_until, h.is_inferred, t.gpus, t.gpu_type, u.used_gpus,
    h.gpus * h.held_seconds / 3600 AS held_gpu_hours, h.bucket, h.lost_from, h.has_checkpoint, u.peak_memory_bytes,
    t.instance_key::VARCHAR AS instance_id
FROM attempts t
LEFT JOIN held h ON t.instance_key = h.instance_key AND t.attempt = h.attempt
LEFT JOIN used u ON u.worker_key = t.worker_key
LEFT JOIN silver_machines m ON m.machine_key = t.machine_key
LEFT JOIN silver_capacity c ON c.machine_key = t.machine_key

-- question: job_resources
-- title: Requested and used by a job
-- order: requested_gpus DESC NULLS LAST, task_name, cluster_id
-- options: job
-- about: Per instance: what was requested, and the mean of what was used; peaks are the highest of any instance.
WITH this_job AS MATERIALIZED ({{ job_rows }}),
attempts AS MATERIALIZED (SELECT * FROM silver_instances WHERE job_key IN (SELECT job_key FROM this_job)),
used AS (
    SELECT i.task_key, count(*) AS measured_instances, avg(u.used_gpus) AS used_gpus, avg(u.used_cores) AS used_cores,
        avg(u.mean_memory_bytes) AS mean_memory_bytes, max(u.peak_memory_bytes) AS peak_memory_bytes,
        max(u.peak_gpu_memory_bytes) AS peak_gpu_memory_bytes
    FROM attempts i JOIN silver_instance_usage u USING (worker_key)
    WHERE u.worker_key IN (SELECT worker_key FROM attempts) GROUP BY i.task_key
)
SELECT t.task_name, t.status, t.gpu_type, t.planned_instances, used.measured_instances, t.requested_gpus,
    used.used_gpus, t.requested_cores, used.used_cores, t.requested_memory_bytes, used.mean_memory_bytes,
    used.peak_memory_bytes, used.peak_gpu_memory_bytes, t.launch_wait_seconds, t.start_wait_seconds, t.cluster_id
FROM silver_tasks t LEFT JOIN used USING (task_key) WHERE t.job_key IN (SELECT job_key FROM this_job)

-- question: job_diagnoses
-- title: Diagnoses of a job's logs
-- order: diagnosed_at DESC, diagnosis_id
-- options: job
-- about: What the rules, or the configured model, found in its logs; the newest first.
SELECT diagnosed_at, verdict, reason, category, cause, remedy, confidence AS confidence_ratio, method, rule, action,
    action_why, node, rank, log, lines_read,
    from_json(evidence, '[{"line": "BIGINT", "text": "VARCHAR", "file": "VARCHAR"}]') AS evidence,
    gpu_hours_lost AS lost_gpu_hours, incident_id, cluster_id, diagnosis_id
FROM diagnoses WHERE job_id = getvariable('job') AND {cluster}

-- question: job_incidents
-- title: Incidents of a job
-- order: opened_at DESC, incident_id
-- options: job
SELECT opened_at, incident_id, kind, state, severity, reason, cause, times_seen, changed_by, note, cluster_id
FROM incidents WHERE job_id = getvariable('job') AND {cluster}

-- question: job_telemetry
-- title: GPUs of a job over time
-- order: node, gpu_index, gpu_id, sampled_from
-- options: job
-- about: Mean busy share and power, highest temperature and memory, of each interval. All GPUs of its machines, if nothing
--     says which of them are its own.
{{ times }},
names AS MATERIALIZED (
    SELECT job_id AS owner_id FROM this_job
    UNION SELECT owner_id FROM gold_job_energy WHERE job_key IN (SELECT job_key FROM this_job)
    UNION SELECT unnest([pod_uid, group_id || '/' || pod_name]) FROM silver_pod_runs
    WHERE job_key IN (SELECT job_key FROM this_job)
),
near AS MATERIALIZED (
    SELECT g.node_id, g.gpu_index, g.gpu_id, g.sampled_at, g.busy_ratio, g.temperature_celsius, g.power_watts,
        g.memory_used_bytes, g.covers_seconds,
        h.gpu_index IS NOT NULL OR coalesce(g.owner_id IN (SELECT owner_id FROM names), false) AS is_own
    FROM silver_gpu_samples g JOIN attempts t USING (machine_key)
    LEFT JOIN silver_held_gpus h ON h.job_key = t.job_key AND h.machine_key = g.machine_key
        AND h.gpu_index = g.gpu_index AND g.owner_kind IN ('unknown', 'unattributed', 'nobody')
        AND g.sampled_at >= h.started_at AND g.sampled_at < coalesce(h.ended_at, t.ends_at)
    WHERE g.sampled_at >= t.begins_at AND g.sampled_at <= t.ends_at
),
seen AS (SELECT * FROM near WHERE is_own OR NOT (SELECT bool_or(is_own) FROM near)),
shape AS (
    SELECT min(sampled_at) AS begins_at,
        greatest(epoch(max(sampled_at) - min(sampled_at)), 1)
        / greatest({{ most_points }} // count(DISTINCT gpu_id) - 1, 1)
        AS width FROM seen
)
SELECT node_id AS node, gpu_index, gpu_id,
    begins_at + to_seconds(width * floor(epoch(sampled_at - begins_at) / width)) AS sampled_from,
    avg(busy_ratio) AS busy_ratio, max(temperature_celsius) AS temperature_celsius, avg(power_watts) AS power_watts,
    max(memory_used_bytes) AS memory_used_bytes, count(*) AS samples
FROM seen CROSS JOIN shape GROUP BY ALL

-- question: job_goodput
-- title: Goodput of a job's training runs
-- order: run_id, rank, part
-- options: job
-- about: What its time went to, by what its training runs logged; docs/training.md defines the parts. The goodput is the
--     ratio of productive.
SELECT run_id, source, part, time_ratio, seconds, gpu_hours, gpus, began_at, ended_at, cluster_id,
    CASE part WHEN 'productive' THEN 0 WHEN 'startup' THEN 1 WHEN 'ending' THEN 3 ELSE 2 END AS rank
FROM gold_run_goodput WHERE job_id = getvariable('job') AND {cluster}

-- question: job_training
-- title: Training runs of a job over time
-- order: run_id, logged_at, step
-- options: job
-- about: Loss and throughput of its training runs; of many steps, those with the most lost time, and each so many-th. Lost is
--     what the step took beyond the usual, and to what.
WITH runs AS (SELECT * FROM silver_training_runs WHERE job_id = getvariable('job') AND {cluster}),
steps AS (
    SELECT r.run_id, s.*, greatest(s.stall_seconds, s.restart_seconds, s.checkpoint_seconds, s.evaluation_seconds)
        AS most_lost, row_number() OVER (PARTITION BY s.run_key ORDER BY s.restarts, s.step) AS place,
        count(*) OVER (PARTITION BY s.run_key) AS places
    FROM silver_training_steps s JOIN runs r USING (run_key) WHERE s.logged_at IS NOT NULL
),
told AS (
    SELECT *, CASE WHEN coalesce(most_lost, 0) <= 0 THEN NULL WHEN restart_seconds = most_lost THEN 'restart'
        WHEN checkpoint_seconds = most_lost THEN 'checkpoint' WHEN evaluation_seconds = most_lost THEN 'evaluation'
        ELSE 'stall' END AS lost_to,
        row_number() OVER (PARTITION BY run_key ORDER BY most_lost DESC NULLS LAST) AS lost_rank
    FROM steps
)
SELECT run_id, logged_at, step, restarts, epoch, loss, learning_rate, grad_norm, samples_per_second, tokens_per_second,
    took_seconds, usual_step_seconds, CASE WHEN lost_to IS NOT NULL THEN most_lost END AS lost_seconds, lost_to,
    repeated_seconds
FROM told
WHERE place % greatest(places // {{ most_points }}, 1) = 0 OR place = places OR (lost_to IS NOT NULL AND lost_rank <= 100)

-- question: job_neighbours
-- title: Other jobs on the same machines at that time
-- order: started_at, job_id, machine_id
-- options: job
-- about: Attempts that ran on one of its machines while it did.
{{ times }},
others AS (
    SELECT i.job_key, i.machine_key, min(i.started_at) AS started_at, max(i.ended_at) AS ended_at,
        sum(i.gpus) AS gpus, max(i.status) AS status
    FROM silver_instances i JOIN attempts t ON i.machine_key = t.machine_key
    WHERE i.job_key NOT IN (SELECT job_key FROM this_job) AND i.started_at < t.ends_at
    AND coalesce(i.ended_at, t.ends_at) > t.begins_at
    GROUP BY i.job_key, i.machine_key
)
SELECT j.job_id, j.cluster_id, j.user_id, j.status, m.machine_id, o.gpus, o.started_at, o.ended_at
FROM others o JOIN silver_jobs j USING (job_key) LEFT JOIN silver_machines m ON m.machine_key = o.machine_key

-- question: failure_reasons
-- title: Why jobs died
-- order: diagnoses DESC, reason
-- about: Logs that were diagnosed as failed, by the day of the diagnosis (UTC). GPU-hours where known.
SELECT reason, any_value(category) AS category, count(*) AS diagnoses, count(DISTINCT (cluster_id, job_id)) AS jobs,
    sum(gpu_hours_lost) AS lost_gpu_hours, max(diagnosed_at) AS last_diagnosed_at
FROM diagnoses WHERE verdict = 'failed' AND {cluster} AND {days:diagnosed_at} GROUP BY reason

-- question: diagnosed
-- title: Diagnosed logs
-- order: diagnosed_at DESC, diagnosis_id
-- options: only_reason, only_job
SELECT diagnosed_at, cluster_id, job_id, incident_id, reason, category, cause, confidence AS confidence_ratio, method,
    rule, action, node, rank, log, gpu_hours_lost AS lost_gpu_hours, began_at, ended_at, diagnosis_id
FROM diagnoses
WHERE verdict = 'failed' AND {cluster} AND {days:diagnosed_at}
AND (getvariable('reason') IS NULL OR reason = getvariable('reason'))
AND (getvariable('job') IS NULL OR job_id = getvariable('job'))
