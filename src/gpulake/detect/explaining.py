"""What a finding rests on: its series and scores anew, around the alarm, and the jobs that ran then."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from typing import Any

import numpy as np

from gpulake.core.explanation import Evidence, Maybe, Ran, RanJob, Track
from gpulake.detect.alarms import LEAST_SHARE, Alarm, alarms_of
from gpulake.detect.series import NEVER, Detector, Floats, Scores, Series
from gpulake.detect.telling import EPOCH, at, gap_of, named
from gpulake.detect.watches import WATCHES, Read
from gpulake.detect.watching import again
from gpulake.lake import LakeReader

MOST_JOBS = 20
MOST_POINTS = 2_000
BEFORE, AFTER = 60, 20  # points that are shown around an alarm, at least
# A node of telemetry is a machine of its cluster, whatever that calls it. What ended as it began may have died of it.
RAN = """
WITH asked AS (SELECT unnest(from_json(getvariable('nodes')::JSON, '["VARCHAR"]')) AS node),
held AS (
    SELECT
        holdings.cluster_id, holdings.job_key, holdings.instance_key, holdings.gpus, holdings.held_from,
        holdings.held_until,
        epoch(least(holdings.held_until, to_timestamp(getvariable('until'))))
        - epoch(greatest(holdings.held_from, to_timestamp(getvariable('since')))) AS seconds
    FROM silver_holdings AS holdings
    LEFT JOIN silver_machines AS machines ON holdings.machine_key = machines.machine_key
    WHERE
        holdings.held_from < to_timestamp(getvariable('until'))
        AND holdings.held_until >= to_timestamp(getvariable('since'))
        AND (getvariable('cluster') IS NULL OR holdings.cluster_id = getvariable('cluster'))
        AND (
            getvariable('nodes') = '[]'
            OR machines.machine_id IN (SELECT node FROM asked)
            OR holdings.machine_key IN (SELECT machine_key FROM silver_nodes SEMI JOIN asked ON node_id = node)
        )
),
instances AS (
    SELECT
        cluster_id, job_key, instance_key, max(gpus) AS gpus, sum(gpus * seconds) / 3600 AS gpu_hours,
        min(held_from) AS held_from, max(held_until) AS held_until
    FROM held
    GROUP BY cluster_id, job_key, instance_key
)
SELECT
    jobs.cluster_id, jobs.job_id, jobs.user_id, sum(instances.gpus) AS gpus, sum(instances.gpu_hours) AS gpu_hours,
    min(instances.held_from) AS began_at, max(instances.held_until) AS ended_at, jobs.status,
    count(*) OVER () AS jobs
FROM instances
INNER JOIN silver_jobs AS jobs ON instances.job_key = jobs.job_key
WHERE
    (getvariable('job') IS NULL OR jobs.job_id = getvariable('job'))
    AND (getvariable('user') IS NULL OR jobs.user_id = getvariable('user'))
GROUP BY jobs.cluster_id, jobs.job_id, jobs.user_id, jobs.status
ORDER BY gpu_hours DESC, jobs.cluster_id, jobs.job_id
LIMIT getvariable('most')
"""
MACHINES = """
SELECT machine_id FROM silver_machines WHERE getvariable('cluster') IS NULL OR cluster_id = getvariable('cluster')
"""
USER = "SELECT 1 FROM silver_jobs WHERE user_id = getvariable('user') LIMIT 1"
DAY = """
SELECT min(epoch(started_at)) AS since, max(epoch(ended_at)) AS until FROM silver_days
WHERE dt = getvariable('day')::DATE AND (getvariable('cluster') IS NULL OR cluster_id = getvariable('cluster'))
"""
OBSERVED = """
SELECT max(epoch(observed_until)) AS until FROM silver_clusters
WHERE getvariable('cluster') IS NULL OR cluster_id = getvariable('cluster')
"""
NEEDED = {"silver_clusters", "silver_days", "silver_holdings", "silver_jobs", "silver_machines", "silver_nodes"}


def id_of(finding: Mapping[str, Any]) -> str:
    """Its own; of what no watch found, one that is drawn from what it is about."""
    own = str(finding.get("finding_id") or "")
    if own:
        return own
    about = "\0".join(str(finding.get(name) or "") for name in ("kind", "cluster_id", "subject", "day"))
    return "d-" + hashlib.sha256(about.encode()).hexdigest()[:16]


def evidence_of(read: Read, finding: Mapping[str, Any]) -> Evidence | None:
    """The series around the alarm; nothing where it was found in none."""
    found = again(read, finding)
    if found is None or not len(found[0].series):
        return None
    watched, scores = found
    detector = WATCHES.get(str(finding["watch"]))().detector
    unit = watched.unit or str(finding.get("unit") or "")
    return evidence(watched.series, scores, detector, unit, finding.get("began_at"), finding.get("ended_at"))


def evidence(
    series: Series,
    scores: Scores,
    detector: Detector,
    unit: str,
    began_at: datetime | None,
    ended_at: datetime | None = None,
) -> Evidence:
    alarm = _nearest(series, scores, began_at)
    if alarm is not None and ended_at is not None:
        alarm = _until(alarm, series, scores, ended_at)
    first, last, peak = (int(np.searchsorted(series.times_ms, moment)) for moment in _times(alarm, series, scores))
    shares = scores.shares[first : last + 1][scores.is_flagged[first : last + 1]]
    shares = shares.mean(axis=0) if len(shares) else scores.shares[peak]
    begin = max(0, first - max(BEFORE, 3 * (last - first + 1)))
    end = min(len(series), last + 1 + max(AFTER, last - first + 1))
    if end - begin > MOST_POINTS:
        begin = max(begin, peak - MOST_POINTS // 2)
        end = min(end, begin + MOST_POINTS)
    shown = slice(begin, end)
    # What is never negative is not expected to be.
    low = np.maximum(scores.low, 0.0) if np.nanmin(series.values, initial=0.0) >= 0 else scores.low
    threshold = float(scores.threshold[peak])
    return Evidence(
        subject=series.subject,
        unit=unit,
        interval_seconds=series.interval_ms / 1000,
        times=tuple(at(moment) for moment in series.times_ms[shown].tolist()),
        tracks=tuple(
            Track(
                series.metrics[place],
                float(shares[place]),
                *(_known(part[shown, place]) for part in (series.values, scores.expected, low, scores.high)),
            )
            for place in np.argsort(-shares, kind="stable").tolist()
        ),
        is_flagged=tuple(scores.is_flagged[shown].tolist()),
        scores=tuple(scores.score[shown].tolist()),
        began_at=at(int(series.times_ms[first])),
        ended_at=at(int(series.times_ms[last])),
        peak=peak - begin,
        threshold=None if threshold >= NEVER else threshold,
        detector=detector_name(detector),
        history_points=first,
        history_since=at(int(series.times_ms[0])),
        least_points=detector.least_points,
    )


def detector_name(detector: Detector) -> str:
    return type(detector).__name__.lower()


def _nearest(series: Series, scores: Scores, began_at: datetime | None) -> Alarm | None:
    """The alarm that was told of: a day may begin elsewhere by the cluster's clock than in its series."""
    alarms = alarms_of(series, scores, gap_of(series))
    if began_at is None:
        return max(alarms, key=lambda alarm: alarm.score, default=None)
    begin = (began_at - EPOCH) / timedelta(milliseconds=1)
    return min(alarms, key=lambda alarm: abs(alarm.begin_ms - begin), default=None)


def _until(alarm: Alarm, series: Series, scores: Scores, ended_at: datetime) -> Alarm:
    """A detector that looks back goes on for a while after what it tells of: its peak is sought before that end."""
    end = (ended_at - EPOCH) / timedelta(milliseconds=1)
    is_within = (series.times_ms >= alarm.begin_ms) & (series.times_ms <= alarm.end_ms) & (series.times_ms < end)
    places = np.flatnonzero(is_within & scores.is_flagged)
    if not len(places):
        return alarm
    peak = int(places[np.argmax(scores.score[places])])
    last = int(series.times_ms[places[-1]])
    return replace(alarm, end_ms=last, peak_ms=int(series.times_ms[peak]), score=float(scores.score[peak]))


def _times(alarm: Alarm | None, series: Series, scores: Scores) -> tuple[int, int, int]:
    if alarm is not None:
        return alarm.begin_ms, alarm.end_ms, alarm.peak_ms
    highest = int(series.times_ms[int(np.argmax(scores.score))])
    return highest, highest, highest


def ran(reader: LakeReader, finding: Mapping[str, Any], evidence: Evidence | None = None) -> Ran | None:
    """The jobs of its machines, job or user, else of its cluster, at its time; nothing where it has none, or the build
    knows of no jobs."""
    cluster = _text(finding.get("cluster_id"))
    window = _window(reader, finding, cluster) if reader.tables() >= NEEDED else None
    if window is None:
        return None
    nodes, job = _machines(reader, finding, cluster, evidence), _text(finding.get("job_id"))
    subject = _text(finding.get("subject"))
    is_user = not nodes and not job and reader.query(USER, user=subject).num_rows > 0
    machines = f"machine{'s' if len(nodes) > 1 else ''} {named(nodes)}"
    of = machines if nodes else f"job {job}" if job else f"user {subject}" if is_user else _cluster(cluster)
    found = _jobs(reader, window, cluster, nodes, None if nodes else job, subject if is_user else None)
    if found or not nodes:
        return _ran(of, window, found)
    everywhere = _jobs(reader, window, cluster, [], job, None)
    note = f"none is known to have been on {machines} then"
    return _ran(f"job {job}" if job else _cluster(cluster), window, everywhere, note)


def _machines(
    reader: LakeReader, finding: Mapping[str, Any], cluster: str | None, evidence: Evidence | None
) -> list[str]:
    """Its own, or those that its series has for metrics and that carry it."""
    node = _text(finding.get("node"))
    if node:
        return [node]
    carriers = [track.metric for track in evidence.tracks if track.share >= LEAST_SHARE] if evidence else []
    known = set(reader.query(MACHINES, cluster=cluster)["machine_id"].to_pylist()) if carriers else set()
    return [name for name in carriers if name in known]


def _cluster(cluster: str | None) -> str:
    return f"cluster {cluster}" if cluster else "all clusters"


def _jobs(
    reader: LakeReader,
    window: tuple[datetime, datetime],
    cluster: str | None,
    nodes: list[str],
    job: str | None,
    user: str | None,
) -> list[dict[str, Any]]:
    since, until = ((edge - EPOCH).total_seconds() for edge in window)
    names = json.dumps(nodes)
    asked = {"since": since, "until": until, "cluster": cluster, "nodes": names, "job": job, "user": user}
    found: list[dict[str, Any]] = reader.query(RAN, **asked, most=MOST_JOBS).to_pylist()
    return found


def _ran(of: str, window: tuple[datetime, datetime], rows: list[dict[str, Any]], note: str = "") -> Ran:
    jobs = tuple(RanJob(**{name: value for name, value in row.items() if name != "jobs"}) for row in rows)
    return Ran(of, *window, jobs, rows[0]["jobs"] - len(jobs) if rows else 0, note)


def _window(reader: LakeReader, finding: Mapping[str, Any], cluster: str | None) -> tuple[datetime, datetime] | None:
    """Its own time, or its day by the cluster's clock; what has no end lasts as long as anything is known."""
    began, ended = finding.get("began_at"), finding.get("ended_at")
    if isinstance(began, datetime):
        if not isinstance(ended, datetime):
            (row,) = reader.query(OBSERVED, cluster=cluster).to_pylist()
            ended = began if row["until"] is None else EPOCH + timedelta(seconds=row["until"])
        return began, max(ended, began + timedelta(seconds=1))
    try:
        day = date.fromisoformat(str(finding.get("day") or ""))
    except ValueError:
        return None
    (row,) = reader.query(DAY, cluster=cluster, day=str(day)).to_pylist()
    if row["since"] is None:
        begin = datetime(day.year, day.month, day.day, tzinfo=UTC)
        return begin, begin + timedelta(days=1)
    return EPOCH + timedelta(seconds=row["since"]), EPOCH + timedelta(seconds=row["until"])


def _known(values: Floats) -> tuple[Maybe, ...]:
    return tuple(value if np.isfinite(value) else None for value in values.tolist())


def _text(value: object) -> str | None:
    return str(value) if value not in (None, "") else None
