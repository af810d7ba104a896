"""One incident: what it is, how it came to be so, what proves it, and what it is like."""

from __future__ import annotations

from gpulake.show.web.questions import Option, Question
from gpulake.show.web.questions.incidents import SUBJECT_LINK, TOLD

INCIDENT = Option("incident", "the incident's id", is_needed=True)
_OWN = "incident_id = getvariable('incident')"
_MEMBERS = (
    '[{"began_at":"TIMESTAMPTZ","ended_at":"TIMESTAMPTZ","kind":"VARCHAR","severity":"VARCHAR","subject":"VARCHAR",'
    '"headline":"VARCHAR","detail":"VARCHAR","remedy":"VARCHAR","cluster_id":"VARCHAR","node":"VARCHAR","job_id":"VARCHAR"}]'
)
_QUOTES = '[{"file":"VARCHAR","line":"BIGINT","text":"VARCHAR","reason":"VARCHAR"}]'
_SIMILAR = '[{"incident_id":"VARCHAR","score":"DOUBLE","reason":"VARCHAR","cause":"VARCHAR","is_confirmed":"BOOLEAN"}]'

QUESTIONS = (
    Question(
        name="incident",
        title="An incident as it stands",
        sql=f"""
SELECT * EXCLUDE (began, ended, first_day, last_day, members, words), {SUBJECT_LINK} AS link,
    '/jobs?from=' || first_day || '&to=' || last_day || coalesce('&cluster=' || url_encode(cluster_id), '')
        AS around_link
FROM ({TOLD}) WHERE {_OWN}
""",
        order="incident_id",
        options=(INCIDENT,),
    ),
    Question(
        name="incident_history",
        title="What became of an incident",
        sql=f"""
WITH events AS (
    SELECT *, row_number() OVER () AS written FROM incident_events WHERE {_OWN}
),
told AS (
    SELECT *, row_number() OVER past AS number, lag(note) OVER past AS note_before FROM events
    WINDOW past AS (ORDER BY changed_at, coalesce(revision, 1), written)
)
SELECT number, changed_at AS at, event || ' by ' || changed_by AS headline,
    concat_ws('; ', CASE WHEN note <> '' AND note IS DISTINCT FROM note_before THEN note END,
        CASE WHEN event IN ('opened', 'confirmed', 'corrected') THEN reason END,
        CASE WHEN event = 'muted'
            THEN 'until ' || coalesce(strftime(muted_until, '%Y-%m-%d %H:%M UTC'), 'somebody unmutes it') END,
        CASE WHEN event = 'assigned' THEN coalesce('to ' || nullif(assigned_to, ''), 'to nobody') END,
        CASE WHEN is_held AND event IN ('acknowledged', 'reopened') THEN 'held open' END) AS detail,
    CASE WHEN event = 'resolved' THEN 'good' WHEN event IN ('opened', 'reopened') THEN severity ELSE 'info' END
        AS level, event, changed_by, state
FROM told
""",
        order="number",
        options=(INCIDENT,),
        about="Every change, the first one first. In UTC.",
    ),
    Question(
        name="incident_sightings",
        title="What an incident was made of",
        sql=f"""
SELECT seen.began_at, seen.ended_at, seen.kind, seen.severity, seen.headline, seen.detail, seen.subject,
    seen.cluster_id, seen.node, seen.job_id
FROM (SELECT unnest(from_json(members, '{_MEMBERS}')) AS seen FROM incidents WHERE {_OWN})
""",
        order="began_at, kind, subject",
        options=(INCIDENT,),
        about="The findings behind it, the earliest first: what came first is the likeliest cause of the rest. In UTC.",
    ),
    Question(
        name="incident_diagnoses",
        title="Diagnoses of an incident, the last one first",
        sql=f"""
SELECT diagnosed_at, diagnosis_id, verdict, category, reason, cause, remedy, action, action_why,
    confidence AS confidence_ratio, method, rule,
    log, run, runs, rank, node, cluster_id, job_id, began_at, ended_at, gpu_hours_lost, lines_read, lines_kept,
    from_json(evidence, '{_QUOTES}') AS evidence, from_json(symptoms, '{_QUOTES}') AS symptoms,
    from_json(telemetry, '["VARCHAR"]') AS telemetry
FROM diagnoses WHERE {_OWN}
""",
        order="diagnosed_at DESC, diagnosis_id",
        options=(INCIDENT,),
        about="Lines are quoted as the log has them, the most telling first.",
    ),
    Question(
        name="incident_similar",
        title="Cases like an incident",
        sql=f"""
WITH own AS (SELECT * FROM incidents WHERE {_OWN}),
last_diagnosis AS (SELECT * FROM diagnoses WHERE {_OWN} ORDER BY diagnosed_at DESC LIMIT 1),
recalled AS (
    SELECT found.incident_id AS incident_id, max(found.score) AS score
    FROM (SELECT unnest(from_json("similar", '{_SIMILAR}')) AS found FROM last_diagnosis) GROUP BY ALL
),
shared AS (
    SELECT past.*, recalled.score,
        list_filter([
            CASE WHEN past.reason = own.reason AND own.reason <> 'unknown' THEN 'reason' END,
            CASE WHEN past.subject = own.subject AND own.subject <> '' THEN 'subject' END,
            CASE WHEN past.node = own.node AND own.node <> '' THEN 'machine' END,
            CASE WHEN past.job_id = own.job_id AND own.job_id <> '' THEN 'job' END
        ], lambda word: word IS NOT NULL) AS alike
    FROM incidents AS past JOIN own ON past.incident_id <> own.incident_id
    LEFT JOIN recalled ON recalled.incident_id = past.incident_id
)
SELECT incident_id, score AS similarity, concat_ws(', ', CASE WHEN score IS NOT NULL THEN 'its words' END,
        CASE WHEN len(alike) > 0 THEN 'the same ' || array_to_string(alike, ', ') END) AS alike_by,
    state, reason, is_confirmed, cause, remedy, note, subject, cluster_id, node, job_id, opened_at, gpu_hours_lost
FROM shared WHERE score IS NOT NULL OR len(alike) > 0
""",
        order="similarity DESC NULLS LAST, is_confirmed DESC, len(alike_by) DESC, opened_at DESC, incident_id",
        options=(INCIDENT,),
        about="First those that the diagnosis recalled by its words (similarity, 0 to 1), then those that share its "
        "reason, subject, machine or job; what a person confirmed before the rest.",
    ),
    Question(
        name="incident_recoveries",
        title="What was tried to bring its job back",
        sql=f"""
SELECT stepped_at, recovery_id, step, status, action, executor, attempt, cluster_id, job_id, node,
    detail::VARCHAR AS detail
FROM recoveries WHERE {_OWN}
""",
        order="stepped_at DESC, recovery_id, step, status",
        options=(INCIDENT,),
        about="The newest step first, in UTC. A dry run did nothing.",
    ),
    Question(
        name="incident_alerts",
        title="Who was told of an incident",
        sql=f"""
SELECT alert_id, state, sink, event, severity, title, happened_at, changed_at, tries, next_try_at, reason
FROM alerts WHERE {_OWN}
""",
        order="changed_at DESC, alert_id",
        options=(INCIDENT,),
    ),
)
