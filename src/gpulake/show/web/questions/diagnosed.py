"""Diagnosed logs: why jobs died."""

from __future__ import annotations

from gpulake.show.web.questions import Option, Question

QUESTIONS = (
    Question(
        name="failure_reasons",
        title="Why jobs died",
        sql="""
SELECT reason, any_value(category) AS category, count(*) AS diagnoses, count(DISTINCT (cluster_id, job_id)) AS jobs,
    sum(gpu_hours_lost) AS lost_gpu_hours, max(diagnosed_at) AS last_diagnosed_at
FROM diagnoses WHERE verdict = 'failed' AND {cluster} AND {days:diagnosed_at} GROUP BY reason
""",
        order="diagnoses DESC, reason",
        about="Logs that were diagnosed as failed, by the day of the diagnosis (UTC). GPU-hours where known.",
    ),
    Question(
        name="diagnosed",
        title="Diagnosed logs",
        sql="""
SELECT diagnosed_at, cluster_id, job_id, incident_id, reason, category, cause, confidence AS confidence_ratio, method,
    rule, action, node, rank, log, gpu_hours_lost AS lost_gpu_hours, began_at, ended_at, diagnosis_id
FROM diagnoses
WHERE verdict = 'failed' AND {cluster} AND {days:diagnosed_at}
AND (getvariable('reason') IS NULL OR reason = getvariable('reason'))
AND (getvariable('job') IS NULL OR job_id = getvariable('job'))
""",
        order="diagnosed_at DESC, diagnosis_id",
        options=(Option("reason", "only this reason"), Option("job", "only this job")),
    ),
)
