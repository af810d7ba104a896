"""Jobs: searched, filtered, counted."""

from __future__ import annotations

from gpulake.show.web.questions import Option, Question
from gpulake.show.web.questions.ledger import SENSED, inferred_words, only_range, range_words

LOST_SHARE = range_words("100 * lost_at_least / nullif(held, 0)", "100 * lost / nullif(held, 0)", "{:.1f}%")
INFERRED = inferred_words("inferred_lost", "lost")
STATUSES = (
    *("succeeded", "failed", "cancelled", "timeout", "node_fail", "interrupted", "running", "waiting", "unknown"),
)
FAILED = "('failed', 'node_fail')"
HAS_ENDED = "j.ended_at IS NOT NULL AND j.status NOT IN ('running', 'waiting')"
STATUS = f"""[[status AND (
    j.status = getvariable('status') OR (getvariable('status') = 'failed' AND j.status IN {FAILED})
)]]"""
OPTIONS = (
    Option("search", "the start of the job's id, user, group, account or workload"),
    Option("status", "jobs with this status; failed includes node failures", choices=STATUSES),
    Option("user", "jobs of this user"),
    Option("group", "jobs of this group"),
    Option("least_gpus", "jobs that requested at least this many GPUs", "number"),
)
# Days of the cluster's time zone, by the submission of a job.
ON_DAYS = """
[[from JOIN (SELECT cluster_id, min(started_at) AS begins_at FROM silver_days WHERE {days} GROUP BY cluster_id) b
    ON b.cluster_id = j.cluster_id AND j.submitted_at >= b.begins_at]]
[[to JOIN (SELECT cluster_id, max(ended_at) AS ends_at FROM silver_days WHERE {days} GROUP BY cluster_id) e
    ON e.cluster_id = j.cluster_id AND j.submitted_at < e.ends_at]]
"""
# The search text is not a pattern.
KEPT = f"""
SELECT j.* FROM silver_jobs j
{ON_DAYS}
WHERE {{cluster:j.cluster_id}}
{STATUS}
[[user AND j.user_id = getvariable('user')]]
[[group AND j.group_id = getvariable('group')]]
[[search AND (starts_with(j.job_id, getvariable('search')) OR starts_with(j.user_id, getvariable('search'))
    OR starts_with(j.group_id, getvariable('search')) OR starts_with(j.account_id, getvariable('search'))
    OR starts_with(j.workload, getvariable('search')))]]
[[gpu_type AND j.job_key IN (SELECT job_key FROM silver_tasks WHERE {{gpu_type}})]]
[[least_gpus AND j.job_key IN (
    SELECT job_key FROM silver_tasks GROUP BY job_key
    HAVING sum(requested_gpus * planned_instances) >= getvariable('least_gpus')::DOUBLE)]]
"""
GPU_TYPE = """
CASE WHEN min(gpu_type) = max(gpu_type) THEN min(gpu_type) ELSE min(gpu_type) || ' and others' END AS gpu_type"""
SPENT = {
    "held_gpu_hours": "sum(held_gpu_hours)",
    "lost_gpu_hours": "sum(lost_gpu_hours)",
    "lost_at_least_gpu_hours": "sum(lost_at_least_gpu_hours)",
    "inferred_lost_gpu_hours": "sum(inferred_lost_gpu_hours)",
    "efficiency_ratio": f"sum(used_gpu_hours) / nullif(sum({SENSED}), 0)",
}
SORTS = {
    "group_id": "SELECT job_key, group_id FROM silver_jobs",
    "workload": "SELECT job_key, workload FROM silver_jobs",
    "gpus": "SELECT job_key, sum(requested_gpus * planned_instances) AS gpus FROM silver_tasks GROUP BY job_key",
    "gpu_type": f"SELECT job_key, {GPU_TYPE} FROM silver_tasks GROUP BY job_key",
    **{
        name: f"SELECT job_key, {value} AS {name} FROM gold_job_efficiency_daily GROUP BY job_key"
        for name, value in SPENT.items()
    },
}
ENDED = f"""
SELECT j.* FROM silver_jobs j
{ON_DAYS.replace("j.submitted_at", "j.ended_at")}
WHERE {HAS_ENDED} AND {{cluster:j.cluster_id}}
{STATUS}
"""
FOUND = """
SELECT job_key, cluster_id, job_id, user_id, status, submitted_at, launch_wait_seconds AS waited_seconds,
    (epoch_us(ended_at) - epoch_us(started_at)) / 1e6 AS ran_seconds"""
DETAILS = f"""
SELECT
    job_key, p.job_id, p.cluster_id, p.user_id, j.group_id, j.workload, p.status, t.gpus, t.gpu_type, p.submitted_at,
    p.waited_seconds, p.ran_seconds, {", ".join(f"h.{name}" for name in SPENT)}
FROM page p JOIN silver_jobs j USING (job_key)
LEFT JOIN (
    SELECT job_key, sum(requested_gpus * planned_instances) AS gpus, {GPU_TYPE}
    FROM silver_tasks WHERE job_key IN (SELECT job_key FROM page) GROUP BY job_key
) t USING (job_key)
LEFT JOIN (
    SELECT job_key, {", ".join(f"{value} AS {name}" for name, value in SPENT.items())}
    FROM gold_job_efficiency_daily WHERE job_key IN (SELECT job_key FROM page) GROUP BY job_key
) h USING (job_key)
"""
# Without filters no job needs to be looked up.
NAMES = ("from", "to", "cluster", "gpu_type", *(option.name for option in OPTIONS))
THEIRS = " ".join(f"[[{name} AND job_key IN (SELECT job_key FROM kept)]]" for name in NAMES)
ABOUT = (
    "Days are those of the submission. Waited: from submission to launch; ran: from launch to end. GPU-hours are those "
    "held; efficiency is the share used of what sensors measured of attempts that were not lost. Lost is an upper "
    "bound; at least: what came after a known checkpoint; inferred: based on inferred times."
)

QUESTIONS = (
    Question(
        name="jobs",
        title="Jobs",
        sql=f"{FOUND} FROM ({KEPT})",
        details=DETAILS,
        key="job_key",
        sorts=SORTS,
        order="submitted_at DESC NULLS LAST, job_id, cluster_id",
        options=OPTIONS,
        about=ABOUT,
    ),
    Question(
        name="ended_jobs",
        title="Jobs that ended",
        sql=f"{FOUND} FROM ({ENDED})",
        details=DETAILS,
        key="job_key",
        sorts=SORTS,
        order="submitted_at DESC NULLS LAST, job_id, cluster_id",
        options=tuple(option for option in OPTIONS if option.name == "status"),
        about=ABOUT.replace("the submission. ", "the end, of any type of GPU. "),
    ),
    Question(
        name="jobs_summary",
        title="Jobs in numbers",
        sql=f"""
WITH kept AS ({KEPT}),
counted AS (
    SELECT count(*) AS jobs, count(*) FILTER ({HAS_ENDED}) AS ended,
        count(*) FILTER ({HAS_ENDED} AND j.status IN {FAILED}) AS failed FROM kept j
),
spent AS (
    SELECT coalesce(sum(held_gpu_hours), 0) AS held, coalesce(sum(lost_gpu_hours), 0) AS lost,
        coalesce(sum(lost_at_least_gpu_hours), 0) AS lost_at_least,
        coalesce(sum(inferred_lost_gpu_hours), 0) AS inferred_lost
    FROM gold_job_efficiency_daily
    WHERE true {THEIRS}
)
SELECT 1 AS rank, 'jobs' AS label, jobs::DOUBLE AS value, 'jobs' AS unit, format('{{:,}} ended', ended) AS note,
    '' AS level, '' AS words FROM counted
UNION ALL
SELECT 2, 'failed', failed / nullif(ended, 0), 'failed_ratio', format('{{:,}} of those that ended', failed),
    CASE WHEN failed > 0.25 * ended THEN 'bad' ELSE '' END, '' FROM counted
UNION ALL
SELECT 3, 'GPU-hours', held, 'held', 'held by their attempts', '', '' FROM spent
UNION ALL
SELECT 4, 'lost', lost, 'lost', coalesce({LOST_SHARE} || ' of those held', '') || {INFERRED},
    CASE WHEN lost > 0.1 * held THEN 'bad' ELSE '' END, {only_range("lost_at_least", "lost", "{:,.0f}")} FROM spent
""",
        order="rank",
        options=OPTIONS,
        about=(
            "Failed: of the jobs that ended, those that failed, also by their node; without those that timed out or "
            "were interrupted. GPU-hours of these jobs, on any day."
        ),
    ),
    Question(
        name="jobs_by_status",
        title="Jobs by day of submission and status",
        sql=f"""
WITH kept AS ({KEPT}),
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
""",
        order="day, status",
        options=OPTIONS,
        about="Days are those of each cluster's time zone.",
    ),
)
