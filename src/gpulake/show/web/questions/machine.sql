{# One machine, known by its name in an inventory or as a node of telemetry; and its history. #}
{% from "parts.sql" import held, model_words, opened, sensed, sums, used_words %}
{# A name may be that of a machine or of a node; a node may be a machine under the first part of its name. #}
{% set named %}
named AS (
    SELECT cluster_id, machine_key FROM silver_machines WHERE machine_id = getvariable('machine') AND {cluster}
    UNION SELECT cluster_id, machine_key FROM silver_nodes WHERE node_id = getvariable('machine') AND {cluster}
    UNION SELECT cluster_id, machine_key FROM silver_capacity
    WHERE getvariable('machine') = '{{ pool }}' AND {cluster}
        AND machine_id IS NULL
)
{% endset %}
{% set nodes %}
{{ named }},
nodes AS (SELECT * FROM silver_nodes WHERE machine_key IN (SELECT machine_key FROM named))
{% endset %}
{# The history of one machine: its jobs, errors, outages, incidents and findings. #}
{% set bounds %}
bounds AS (
    SELECT cluster_id, min(started_at) AS begins_at, max(ended_at) AS ends_at FROM silver_days WHERE {days}
    GROUP BY cluster_id
)
{% endset %}
{# Rows about the machine: by its name, or by that of its node. #}
{% set meant %}
(node IN (SELECT name FROM names) OR subject IN (SELECT name FROM names)) AND ({cluster} OR cluster_id IS NULL)
{% endset %}
{% set names %}
WITH {{ nodes }}, names AS (SELECT getvariable('machine') AS name UNION SELECT node_id FROM nodes)
{% endset %}

-- question: machine_facts
-- title: The machine in numbers
-- order: cluster_id, place
-- options: machine
-- about: Of its GPU-hours in these days, within the time under observation.
WITH {{ nodes }},
ledger AS (
    SELECT
        machine_key, sum(capacity_gpu_hours) AS capacity, sum(used_gpu_hours) AS used, sum({{ sensed }}) AS sensed,
        sum(unobserved_gpu_hours) AS unobserved, sum(down_gpu_hours) AS down, sum(unknown_gpu_hours) AS unknown,
        sum({{ held }}) AS held, sum(lost_gpu_hours) AS lost, sum(lost_at_least_gpu_hours) AS lost_at_least
    FROM gold_machine_hours WHERE machine_key IN (SELECT machine_key FROM named) AND {days} GROUP BY machine_key
),
facts AS (
    SELECT
        named.cluster_id, coalesce(machine.gpu_type, there.gpu_type, node.gpu_name) AS gpu_type,
        coalesce(machine.gpus, there.gpus::BIGINT, node.gpus) AS gpus,
        coalesce(machine.cores, node.cores) AS cores, coalesce(machine.memory_bytes, node.memory_bytes) AS memory,
        node.cpu_model, capacity, used, sensed, unobserved, down, unknown, held, lost, lost_at_least,
        lemon.rank, lemon.is_lemon, lemon.failed_jobs, lemon.jobs, lemon.expected_failed_jobs
    FROM named
    LEFT JOIN silver_machines AS machine ON named.machine_key = machine.machine_key
    LEFT JOIN silver_capacity AS there ON named.machine_key = there.machine_key
    LEFT JOIN (SELECT * FROM nodes QUALIFY row_number() OVER (PARTITION BY machine_key ORDER BY node_id) = 1) AS node
        ON named.machine_key = node.machine_key
    LEFT JOIN ledger ON named.machine_key = ledger.machine_key
    LEFT JOIN gold_lemon_machines AS lemon ON named.machine_key = lemon.machine_key
),
tiles AS (
    SELECT cluster_id, 1 AS place, 'Cluster' AS label, cluster_id AS value, NULL AS note, NULL AS level FROM facts
    UNION ALL SELECT cluster_id, 2, 'GPUs', format('{} × {}', gpus, coalesce(gpu_type, 'unknown')),
        {{ model_words }}, NULL FROM facts LEFT JOIN silver_gpu_types AS types USING (gpu_type)
    UNION ALL SELECT cluster_id, 3, 'Cores', format('{:g}', cores), cpu_model, NULL FROM facts
    UNION ALL SELECT cluster_id, 4, 'Memory', format('{:.0f} GiB', memory / 1073741824), NULL, NULL FROM facts
    UNION ALL SELECT cluster_id, 5, 'Used', format('{:.1f}%', 100 * used / nullif(sensed, 0)),
        {{ used_words }}, NULL FROM facts
    UNION ALL SELECT cluster_id, 6, 'Held', format('{:.1f}%', 100 * held / nullif(capacity, 0)),
        format('by jobs, of {:,.0f} GPU-hours in the time under observation', capacity), NULL FROM facts
    UNION ALL SELECT cluster_id, 7, 'Down', format('{:,.1f}', down),
        format('GPU-hours, of {:,.0f}', capacity), CASE WHEN down > 0 THEN 'bad' END FROM facts
    UNION ALL SELECT cluster_id, 8, 'Unknown', format('{:,.1f}', unknown),
        'GPU-hours of which it is not known whether they were held', NULL FROM facts WHERE unknown > 0
    UNION ALL SELECT cluster_id, 9, 'Lemon rank', format('{}', rank),
        coalesce(
            format(
                '{} of {} jobs failed, {:.1f} expected; over all time', failed_jobs, jobs, expected_failed_jobs
            ),
            format('{} of {} jobs failed; no machine of its type to compare with', failed_jobs, jobs)
        ),
        CASE WHEN is_lemon THEN 'bad' END FROM facts
)
SELECT * EXCLUDE (cluster_id), cluster_id FROM tiles WHERE value IS NOT NULL

-- question: machine_ledger
-- title: What became of its GPU-hours
-- order: begin
-- options: machine
-- about: In GPU-hours, in the cluster's time zone, by the hour up to three days, else by the day.
WITH {{ named }},
hours AS (
    SELECT gold_machine_hours.*, gold_machine_hours.started_at AT TIME ZONE time_zone AS local_at
    FROM gold_machine_hours INNER JOIN silver_clusters ON gold_machine_hours.cluster_id = silver_clusters.cluster_id
    WHERE machine_key IN (SELECT machine_key FROM named) AND {days}
),
span AS (SELECT count(DISTINCT dt) <= {{ hourly_days }} AS is_hourly FROM hours)
SELECT
    CASE WHEN is_hourly THEN strftime(local_at, '%Y-%m-%d %H:%M') ELSE strftime(dt, '%Y-%m-%d') END AS begin,
    {{ sums(buckets) }}, sum(capacity_gpu_hours) AS capacity
FROM hours CROSS JOIN span
GROUP BY begin

-- question: machine_use
-- title: GPUs and CPU in use
-- order: began_at
-- options: machine
-- about: Means over at most {{ machine_points }} equal spans of time, of what was observed; times are UTC.
WITH {{ named }},
stretches AS (
    SELECT epoch(started_at) AS begin_second, epoch(ended_at) AS end_second, busy_gpus, cpu_util_ratio
    FROM silver_machine_stretches WHERE machine_key IN (SELECT machine_key FROM named) AND {days}
),
span AS (
    SELECT min(begin_second) AS first, greatest(3600, (max(end_second) - min(begin_second)) / {{ machine_points }})
        AS width, max(end_second) AS last FROM stretches
),
slots AS (
    SELECT first + number * width AS begin_second, width
    FROM span, range(0, {{ machine_points }}) AS numbers (number)
    WHERE first + number * width < last
),
parts AS (
    SELECT slots.begin_second, busy_gpus, cpu_util_ratio,
        least(end_second, slots.begin_second + width) - greatest(stretches.begin_second, slots.begin_second) AS seconds
    FROM stretches INNER JOIN slots
        ON stretches.begin_second < slots.begin_second + width AND stretches.end_second > slots.begin_second
)
SELECT
    to_timestamp(begin_second) AS began_at, sum(busy_gpus * seconds) / sum(seconds) AS busy_gpus,
    sum(cpu_util_ratio * seconds) / sum(seconds) FILTER (cpu_util_ratio IS NOT NULL) AS cpu_util_ratio,
    sum(seconds) AS observed_seconds
FROM parts GROUP BY begin_second

-- question: machine_gpus
-- title: Its GPUs over time
-- order: gpu_index, gpu_id, began_at
-- options: machine
-- about: Means of the samples in at most {{ machine_points }} equal spans of time; times are UTC.
WITH {{ nodes }},
samples AS (
    SELECT
        silver_gpu_samples.*, silver_gpu_samples.sampled_at AT TIME ZONE nodes.time_zone AS local_at,
        epoch(sampled_at) AS second
    FROM silver_gpu_samples INNER JOIN nodes ON silver_gpu_samples.node_id = nodes.node_id
),
chosen AS (SELECT * FROM samples WHERE {days:local_at}),
span AS (
    SELECT min(second) AS first, greatest(1, (max(second) - min(second)) / {{ machine_points }}) AS width FROM chosen
)
SELECT
    gpu_index, gpu_id,
    to_timestamp(first + width * least(floor((second - first) / width), {{ machine_points - 1 }})) AS began_at,
    avg(busy_ratio) AS busy_ratio, avg(memory_used_bytes) AS memory_used_bytes,
    avg(temperature_celsius) AS temperature_celsius, avg(power_watts) AS power_watts, count(*) AS samples
FROM chosen CROSS JOIN span GROUP BY ALL

-- question: machine_attempts
-- title: Attempts on it
-- order: held_from DESC, job_id, held_until
-- options: machine
-- about: Attempts that held GPUs here in these days, the last first. Inferred: start or end was not recorded. UTC.
WITH {{ named }}, {{ bounds }},
-- Its attempts first: otherwise every job would be joined.
held AS MATERIALIZED (
    SELECT silver_holdings.* FROM silver_holdings
    INNER JOIN bounds
        ON silver_holdings.cluster_id = bounds.cluster_id AND held_until > begins_at AND held_from < ends_at
    WHERE machine_key IN (SELECT machine_key FROM named)
)
SELECT
    held.cluster_id, job_id, user_id, held.status, bucket, gpus, held_from, held_until, held_seconds,
    gpus * held_seconds / 3600 AS held_gpu_hours, is_inferred
FROM held LEFT JOIN silver_jobs ON held.job_key = silver_jobs.job_key

-- question: machine_jobs
-- title: Jobs on it
-- order: held_gpu_hours DESC, job_id
-- options: machine
-- about: What they held on this machine in attempts that touch these days, those that held most first. Lost: at most;
--     at least, after a known checkpoint. Times are UTC.
WITH {{ named }}, {{ bounds }},
held AS MATERIALIZED (
    SELECT
        silver_holdings.cluster_id, job_key, count(*) AS attempts, min(held_from) AS held_from,
        max(held_until) AS held_until,
        sum(gpus * held_seconds) / 3600 AS held_gpu_hours,
        coalesce(sum(gpus * lost_seconds), 0) / 3600 AS lost_gpu_hours,
        coalesce(sum(gpus * lost_seconds) FILTER (has_checkpoint), 0) / 3600 AS lost_at_least_gpu_hours,
        coalesce(sum(gpus * lost_seconds) FILTER (is_inferred), 0) / 3600 AS inferred_lost_gpu_hours,
        count(*) FILTER (status IN ('failed', 'timeout', 'node_fail')) AS failed_attempts
    FROM (SELECT *, epoch(held_until) - epoch(lost_from) AS lost_seconds FROM silver_holdings) AS silver_holdings
    INNER JOIN bounds
        ON silver_holdings.cluster_id = bounds.cluster_id AND held_until > begins_at AND held_from < ends_at
    WHERE machine_key IN (SELECT machine_key FROM named) GROUP BY ALL
)
SELECT
    held.cluster_id, job_id, user_id, status, attempts, failed_attempts, held_from, held_until, held_gpu_hours,
    lost_gpu_hours, lost_at_least_gpu_hours, inferred_lost_gpu_hours
FROM held LEFT JOIN silver_jobs ON held.job_key = silver_jobs.job_key

-- question: machine_events
-- title: Messages of its kernel and drivers
-- order: happened_at DESC, kind, message
-- options: machine
-- about: The last first; times are UTC.
WITH {{ nodes }},
events AS (
    SELECT silver_node_events.*, happened_at AT TIME ZONE nodes.time_zone AS local_at
    FROM silver_node_events INNER JOIN nodes ON silver_node_events.node_id = nodes.node_id
)
SELECT happened_at, kind, subject, code, message, source FROM events WHERE {days:local_at}

-- question: machine_gpu_errors
-- title: Errors of its GPUs
-- order: day DESC, gpu_index
-- options: machine
-- about: Counts of a day.
WITH {{ nodes }}
SELECT
    dt AS day, gpu_index, serious_errors, errors, xid_counts, ecc_uncorrected, ecc_corrected, has_remap_pending,
    is_spike
FROM gold_gpu_errors_daily WHERE node_id IN (SELECT node_id FROM nodes) AND errors > 0 AND {days}

-- question: machine_outages
-- title: When it was down, or in an unknown state
-- order: started_at DESC
-- options: machine
-- about: Recorded: in the list of outages. Died: all its jobs failed at once, then silence. Silent: its state is not
--     known. Times are UTC.
WITH {{ named }}, {{ bounds }}
SELECT
    silver_outages.cluster_id, basis, started_at, ended_at,
    CASE WHEN basis != 'silent' THEN epoch(ended_at) - epoch(started_at) END AS down_seconds,
    CASE WHEN basis = 'silent' THEN epoch(ended_at) - epoch(started_at) END AS unknown_seconds
FROM silver_outages
INNER JOIN bounds ON silver_outages.cluster_id = bounds.cluster_id AND coalesce(ended_at, ends_at) > begins_at
    AND started_at < ends_at
WHERE machine_key IN (SELECT machine_key FROM named)

-- question: machine_incidents
-- title: Its incidents
-- order: "at" DESC NULLS LAST, link
-- options: machine
-- about: Those about its node or about itself, over all time.
{{ names }}
SELECT
    coalesce(nullif(cause, ''), reason, kind) AS headline, concat_ws(' · ', kind, nullif(remedy, '')) AS detail,
    severity AS level, state AS incident_state, '/incident?incident=' || url_encode(incident_id) AS link, began_at AS at
FROM incidents WHERE {{ meant }}

-- question: machine_findings
-- title: Findings about it
-- order: rank
-- options: machine
-- about: Findings of the last build.
{{ names }}
SELECT headline, concat_ws(' · ', nullif(detail, ''), nullif(remedy, '')) AS detail, severity AS level, began_at AS at,
    rank, incident_state, '/incident?incident=' || url_encode(incident_id) AS link
FROM findings LEFT JOIN ({{ opened }}) AS opened USING (kind, subject)
WHERE {{ meant }}
