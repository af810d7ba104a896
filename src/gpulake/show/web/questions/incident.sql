{# One incident: its facts, its history, its evidence, and similar ones. #}
{% from "parts.sql" import dated, subject_link %}
{% set this %}incident_id = getvariable('incident'){% endset %}
{% set members %}
[{"began_at":"TIMESTAMPTZ","ended_at":"TIMESTAMPTZ","kind":"VARCHAR","severity":"VARCHAR",
"subject":"VARCHAR","headline":"VARCHAR","detail":"VARCHAR","remedy":"VARCHAR",
"cluster_id":"VARCHAR","node":"VARCHAR","job_id":"VARCHAR"}]
{%- endset %}
{% set quotes %}[{"file":"VARCHAR","line":"BIGINT","text":"VARCHAR","reason":"VARCHAR"}]{% endset %}
{% set similar %}
[{"incident_id":"VARCHAR","score":"DOUBLE","reason":"VARCHAR","cause":"VARCHAR","is_confirmed":"BOOLEAN"}]
{%- endset %}

-- question: incident
-- title: The current state of an incident
-- order: incident_id
-- options: incident
SELECT * EXCLUDE (began, ended, first_day, last_day, members, words), {{ subject_link }} AS link,
    '/jobs?from=' || first_day || '&to=' || last_day || coalesce('&cluster=' || url_encode(cluster_id), '')
        AS around_link
FROM ({{ dated }}) WHERE {{ this }}

-- question: incident_history
-- title: The history of an incident
-- order: number
-- options: incident
-- about: Every change, the oldest first. Times are UTC.
WITH events AS (
    SELECT *, row_number() OVER () AS written FROM incident_events WHERE {{ this }}
),
numbered AS (
    SELECT *, row_number() OVER past AS number, lag(note) OVER past AS note_before FROM events
    WINDOW past AS (ORDER BY changed_at, coalesce(revision, 1), written)
)
SELECT number, changed_at AS at, event || ' by ' || changed_by AS headline,
    concat_ws('; ', CASE WHEN note <> '' AND note IS DISTINCT FROM note_before THEN note END,
        CASE WHEN event IN ('opened', 'confirmed', 'corrected') THEN reason END,
        CASE WHEN event = 'muted'
            THEN 'until ' || coalesce(strftime(muted_until, '%Y-%m-%d %H:%M UTC'), 'it is unmuted') END,
        CASE WHEN event = 'assigned' THEN coalesce('to ' || nullif(assigned_to, ''), 'to nobody') END,
        CASE WHEN is_held AND event IN ('acknowledged', 'reopened') THEN 'held open' END) AS detail,
    CASE WHEN event = 'resolved' THEN 'good' WHEN event IN ('opened', 'reopened') THEN severity ELSE 'info' END
        AS level, event, changed_by, state
FROM numbered

-- question: incident_sightings
-- title: The findings behind an incident
-- order: began_at, kind, subject
-- options: incident
-- about: The findings behind it; the earliest is the likeliest cause of the rest. Times are UTC.
SELECT seen.began_at, seen.ended_at, seen.kind, seen.severity, seen.headline, seen.detail, seen.subject,
    seen.cluster_id, seen.node, seen.job_id
FROM (SELECT unnest(from_json(members, '{{ members }}')) AS seen FROM incidents WHERE {{ this }})

-- question: incident_diagnoses
-- title: Diagnoses of an incident, the last one first
-- order: diagnosed_at DESC, diagnosis_id
-- options: incident
-- about: Lines are quoted from the log, the most relevant first.
SELECT diagnosed_at, diagnosis_id, verdict, category, reason, cause, remedy, action, action_why,
    confidence AS confidence_ratio, method, rule,
    log, run, runs, rank, node, cluster_id, job_id, began_at, ended_at, gpu_hours_lost, lines_read, lines_kept,
    from_json(evidence, '{{ quotes }}') AS evidence, from_json(symptoms, '{{ quotes }}') AS symptoms,
    from_json(telemetry, '["VARCHAR"]') AS telemetry
FROM diagnoses WHERE {{ this }}

-- question: incident_similar
-- title: Similar incidents
-- order: similarity DESC NULLS LAST, is_confirmed DESC, len(alike_by) DESC, opened_at DESC, incident_id
-- options: incident
-- about: First those with a similar log (similarity, 0 to 1), then those that share its reason, subject, machine or
--     job; those that a person confirmed before the rest.
WITH this AS (SELECT * FROM incidents WHERE {{ this }}),
last_diagnosis AS (SELECT * FROM diagnoses WHERE {{ this }} ORDER BY diagnosed_at DESC LIMIT 1),
recalled AS (
    SELECT one.incident_id AS incident_id, max(one.score) AS score
    FROM (SELECT unnest(from_json("similar", '{{ similar }}')) AS one FROM last_diagnosis) GROUP BY ALL
),
shared AS (
    SELECT past.*, recalled.score,
        list_filter([
            CASE WHEN past.reason = this.reason AND this.reason <> 'unknown' THEN 'reason' END,
            CASE WHEN past.subject = this.subject AND this.subject <> '' THEN 'subject' END,
            CASE WHEN past.node = this.node AND this.node <> '' THEN 'machine' END,
            CASE WHEN past.job_id = this.job_id AND this.job_id <> '' THEN 'job' END
        ], lambda word: word IS NOT NULL) AS alike
    FROM incidents AS past JOIN this ON past.incident_id <> this.incident_id
    LEFT JOIN recalled ON recalled.incident_id = past.incident_id
)
SELECT incident_id, score AS similarity, concat_ws(', ', CASE WHEN score IS NOT NULL THEN 'its text' END,
        CASE WHEN len(alike) > 0 THEN 'the same ' || array_to_string(alike, ', ') END) AS alike_by,
    state, reason, is_confirmed, cause, remedy, note, subject, cluster_id, node, job_id, opened_at, gpu_hours_lost
FROM shared WHERE score IS NOT NULL OR len(alike) > 0

-- question: incident_recoveries
-- title: Recoveries of its job
-- order: stepped_at DESC, recovery_id, step, status
-- options: incident
-- about: The newest step first. Times are UTC. A dry run changed nothing.
SELECT stepped_at, recovery_id, step, status, action, executor, attempt, cluster_id, job_id, node,
    detail::VARCHAR AS detail
FROM recoveries WHERE {{ this }}

-- question: incident_alerts
-- title: Notifications of an incident
-- order: changed_at DESC, alert_id
-- options: incident
SELECT alert_id, state, sink, event, severity, title, happened_at, changed_at, tries, next_try_at, reason
FROM alerts WHERE {{ this }}
