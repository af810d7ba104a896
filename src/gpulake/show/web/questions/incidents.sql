{# Incidents: their states, when they were seen, who was notified; and the days that stand out. #}
{% from "parts.sql" import dated, subject_link %}
{% set chosen %}
SELECT * FROM ({{ dated }}) WHERE {days:began,ended} AND {cluster}
    AND (getvariable('state') IS NULL OR state = getvariable('state'))
    AND (getvariable('severity') IS NULL OR severity = getvariable('severity'))
    AND (getvariable('kind') IS NULL OR getvariable('kind') IN (kind, reason))
{% endset %}
{% set filtered %}
    || coalesce('&from=' || getvariable('from'), '') || coalesce('&to=' || getvariable('to'), '')
    || coalesce('&cluster=' || url_encode(getvariable('cluster')::VARCHAR), '')
{% endset %}
{% set seen %}An incident counts on every day on which it was seen, in UTC.{% endset %}

-- question: incident_counts
-- title: Incidents by state
-- order: place
-- about: {{ seen }} Their current state.
WITH chosen AS (SELECT * FROM ({{ dated }}) WHERE {days:began,ended} AND {cluster}),
tiles AS (
    SELECT 1 AS place, 'open' AS label, count(*) FILTER (state = 'open') AS value, 'not acknowledged yet' AS note,
        'state=open' AS filter, 'bad' AS wrong FROM chosen
    UNION ALL SELECT 2, 'critical', count(*) FILTER (state = 'open' AND severity = 'critical'), 'of the open ones',
        'state=open&severity=critical', 'bad' FROM chosen
    UNION ALL SELECT 3, 'acknowledged', count(*) FILTER (state = 'acknowledged'), 'someone looks after them',
        'state=acknowledged', '' FROM chosen
    UNION ALL SELECT 4, 'muted', count(*) FILTER (state = 'muted'), 'no notifications', 'state=muted', '' FROM chosen
    UNION ALL SELECT 5, 'resolved', count(*) FILTER (state = 'resolved'), 'over', 'state=resolved', '' FROM chosen
)
SELECT place, label, value, note, CASE WHEN value > 0 THEN wrong ELSE '' END AS level,
    '/incidents?' || filter {{ filtered }} AS link
FROM tiles

-- question: incidents
-- title: Incidents
-- order: list_position({{ states | list }}, state), list_position({{ severities | list }}, severity), last_seen_at
--     DESC NULLS LAST, opened_at DESC, incident_id
-- options: state, severity, kind
-- about: Their current state, those that need attention first. {{ seen }}
SELECT incident_id, state, severity, kind, reason, subject, cause, remedy, cluster_id, node, job_id, began AS began_at,
    last_seen_at, opened_at, times_seen, is_confirmed, is_held, muted_until, gpu_hours_lost, {{ subject_link }} AS link
FROM ({{ chosen }})

-- question: incidents_by_day
-- title: Incidents by day
-- order: day
-- options: state, severity, kind
-- about: {{ seen }}
WITH days AS (
    SELECT severity, unnest(generate_series(greatest(first_day, getvariable('from')::DATE),
        least(last_day, getvariable('to')::DATE), INTERVAL 1 DAY))::DATE AS day
    FROM ({{ chosen }})
)
SELECT day, count(*) FILTER (severity = 'critical') AS critical, count(*) FILTER (severity = 'warning') AS warning,
    count(*) FILTER (severity NOT IN ('critical', 'warning')) AS info, count(*) AS incidents,
    '/incidents?from=' || day || '&to=' || day AS link
FROM days GROUP BY day

-- question: incidents_by_reason
-- title: Incidents by kind and reason
-- order: incidents DESC, reason, kind
-- options: state, severity, kind
-- about: Standing: not resolved. GPU-hours lost as far as diagnoses know them.
SELECT reason, kind, count(*) AS incidents, count(*) FILTER (state <> 'resolved') AS standing,
    count(*) FILTER (severity = 'critical') AS critical, count(*) FILTER (is_confirmed) AS confirmed,
    sum(gpu_hours_lost) AS lost_gpu_hours, max(ended) AS last_seen_at,
    '/incidents?kind=' || url_encode(reason) {{ filtered }} AS link
FROM ({{ chosen }}) GROUP BY reason, kind

-- question: anomalous_days
-- title: Days that stand out, the strangest first
-- order: own_flag DESC, own_score DESC NULLS LAST, reference_score NULLS LAST, day
-- about: A day is flagged if there is an incident of unusual utilisation then. Own score: how far the day is from what
--     earlier days of that weekday let one expect, 0 to 1. The reference's forest flags a twentieth of all days, whatever they are; its lower scores are stranger. Scores,
--     bands and coverage are of all clusters together; utilisation and jobs are of the cluster that was asked for. A
--     day leads to its jobs.
WITH scored AS (
    -- A build of an earlier version has no own_score.
    SELECT * FROM gold_cluster_util_daily_scored UNION ALL BY NAME
    SELECT NULL::DOUBLE AS own_score, false AS own_flag, NULL::DOUBLE AS own_expected_ratio,
        NULL::DOUBLE AS own_low_ratio, NULL::DOUBLE AS own_high_ratio, '' AS why_they_differ WHERE false
),
used AS (
    SELECT dt, sum(busy_gpu_hours) / nullif(sum(observed_gpu_hours), 0) AS gpu_util_ratio
    FROM gold_cluster_util_daily WHERE {cluster} GROUP BY dt
),
ended AS (
    SELECT dt, sum(ended_jobs)::BIGINT AS ended_jobs, sum(failed_jobs)::BIGINT AS failed_jobs
    FROM gold_jobs_daily WHERE {cluster} GROUP BY dt
)
SELECT scored.dt AS day, strftime(scored.dt, '%a') AS weekday, coalesce(own_flag, false) AS own_flag, own_score,
    gpu_util_ratio, own_expected_ratio AS expected_ratio, own_low_ratio AS low_ratio, own_high_ratio AS high_ratio,
    anomaly_flag = 1 AS reference_flag, anomaly_score AS reference_score,
    coalesce(why_they_differ, '') AS why_they_differ,
    coverage_ratio, is_poorly_covered, ended_jobs, failed_jobs,
    '/jobs?from=' || scored.dt || '&to=' || scored.dt AS link
FROM scored LEFT JOIN used USING (dt) LEFT JOIN ended USING (dt) WHERE {days:scored.dt}
    [[cluster AND scored.dt IN (SELECT dt FROM gold_cluster_util_daily WHERE {cluster})]]

-- question: alerts
-- title: Alerts, the waiting ones first
-- order: state IN ('sent', 'dropped'), changed_at DESC, alert_id
-- about: Queued, sending and failed alerts are waiting; dropped ones are not tried again. Times are UTC.
SELECT alert_id, state, sink, event, severity, title, incident_id, cluster_id, node, happened_at, changed_at, tries,
    next_try_at, reason
FROM alerts WHERE {days:happened_at} AND {cluster}

-- question: alerts_by_sink
-- title: Alerts by sink
-- order: waiting DESC, sink
-- about: On all days. Waiting: queued, being sent, or to be tried again.
SELECT sink, count(*) FILTER (state IN ('queued', 'sending', 'failed')) AS waiting,
    count(*) FILTER (state = 'failed') AS failed, count(*) FILTER (state = 'sent') AS sent,
    count(*) FILTER (state = 'dropped') AS dropped,
    max(changed_at) FILTER (state = 'sent') AS last_sent_at, min(next_try_at) FILTER (state = 'failed') AS next_try_at
FROM alerts GROUP BY sink

-- question: maintenance_windows
-- title: Maintenance windows
-- order: ends_at NULLS FIRST, starts_at NULLS FIRST, window_id
-- about: Incidents within one are recorded, and nobody is notified. Names may be patterns with * and ?.
SELECT window_id, cluster, node AS nodes, kind, starts_at, ends_at, weekdays, hours, time_zone, note,
    changed_by AS added_by
FROM maintenance_windows WHERE NOT coalesce(is_removed, false)
