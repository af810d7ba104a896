"""The history of one machine: its jobs, errors, outages, incidents and findings."""

from __future__ import annotations

from gpulake.show.web.questions.machine import NAMED, NODES, about_machine

BOUNDS = """
bounds AS (
    SELECT cluster_id, min(started_at) AS begins_at, max(ended_at) AS ends_at FROM silver_days WHERE {days}
    GROUP BY cluster_id
)"""
# Rows about the machine: by its name, or by that of its node.
_MEANT = """
(node IN (SELECT name FROM names) OR subject IN (SELECT name FROM names)) AND ({cluster} OR cluster_id IS NULL)"""
_NAMES = f"WITH {NODES}, names AS (SELECT getvariable('machine') AS name UNION SELECT node_id FROM nodes)"

QUESTIONS = (
    about_machine(
        "machine_attempts",
        "Attempts on it",
        f"""
WITH {NAMED}, {BOUNDS},
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
""",
        "held_from DESC, job_id, held_until",
        "Attempts that held GPUs here in these days, the last first. Inferred: start or end was not recorded. UTC.",
    ),
    about_machine(
        "machine_jobs",
        "Jobs on it",
        f"""
WITH {NAMED}, {BOUNDS},
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
""",
        "held_gpu_hours DESC, job_id",
        "What they held on this machine in attempts that touch these days, those that held most first. Lost: at most; "
        "at least, after a known checkpoint. Times are UTC.",
    ),
    about_machine(
        "machine_events",
        "Messages of its kernel and drivers",
        f"""
WITH {NODES},
events AS (
    SELECT silver_node_events.*, happened_at AT TIME ZONE nodes.time_zone AS local_at
    FROM silver_node_events INNER JOIN nodes ON silver_node_events.node_id = nodes.node_id
)
SELECT happened_at, kind, subject, code, message, source FROM events WHERE {{days:local_at}}
""",
        "happened_at DESC, kind, message",
        "The last first; times are UTC.",
    ),
    about_machine(
        "machine_gpu_errors",
        "Errors of its GPUs",
        f"""
WITH {NODES}
SELECT
    dt AS day, gpu_index, serious_errors, errors, xid_counts, ecc_uncorrected, ecc_corrected, has_remap_pending,
    is_spike
FROM gold_gpu_errors_daily WHERE node_id IN (SELECT node_id FROM nodes) AND errors > 0 AND {{days}}
""",
        "day DESC, gpu_index",
        "Counts of a day.",
    ),
    about_machine(
        "machine_outages",
        "When it was down, or in an unknown state",
        f"""
WITH {NAMED}, {BOUNDS}
SELECT
    silver_outages.cluster_id, basis, started_at, ended_at,
    CASE WHEN basis != 'silent' THEN epoch(ended_at) - epoch(started_at) END AS down_seconds,
    CASE WHEN basis = 'silent' THEN epoch(ended_at) - epoch(started_at) END AS unknown_seconds
FROM silver_outages
INNER JOIN bounds ON silver_outages.cluster_id = bounds.cluster_id AND coalesce(ended_at, ends_at) > begins_at
    AND started_at < ends_at
WHERE machine_key IN (SELECT machine_key FROM named)
""",
        "started_at DESC",
        "Recorded: in the list of outages. Died: all its jobs failed at once, then silence. Silent: its state is not "
        "known. Times are UTC.",
    ),
    about_machine(
        "machine_incidents",
        "Its incidents",
        f"""
{_NAMES}
SELECT
    coalesce(nullif(cause, ''), reason, kind) AS headline, concat_ws(' · ', state, kind, nullif(remedy, '')) AS detail,
    severity AS level, '/incident?incident=' || url_encode(incident_id) AS link, began_at AS at
FROM incidents WHERE {_MEANT}
""",
        '"at" DESC NULLS LAST, link',
        "Those about its node or about itself, over all time.",
    ),
    about_machine(
        "machine_findings",
        "Findings about it",
        f"""
{_NAMES}
SELECT headline, concat_ws(' · ', nullif(detail, ''), nullif(remedy, '')) AS detail, severity AS level, began_at AS at,
    rank
FROM findings WHERE {_MEANT}
""",
        "rank",
        "Findings of the last build.",
    ),
)
