"""The evidence of a finding: its series and scores around the alarm, and the jobs that ran then."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from typing import Any

import numpy as np

from gpulake.core.explanation import Evidence, Maybe, Ran, RanJob, Track
from gpulake.core.packaged import queries
from gpulake.core.rows import text_or_none
from gpulake.detect.alarms import LEAST_SHARE, Alarm, alarms_of, finding_gap, first_names
from gpulake.detect.series import EPOCH, UNREACHABLE, Detector, Floats, Scores, Series, utc
from gpulake.detect.watches import WATCHES, Read
from gpulake.detect.watchlist import rescore
from gpulake.lake import LakeReader

MOST_JOBS = 20
MOST_POINTS = 2_000
BEFORE, AFTER = 60, 20  # the least number of points shown around an alarm
SQL = queries("gpulake.detect", "queries.sql")
NEEDED = {"silver_clusters", "silver_days", "silver_holdings", "silver_jobs", "silver_machines", "silver_nodes"}


def id_of(finding: Mapping[str, Any]) -> str:
    """The id that its watch gave it; for other findings a hash of kind, cluster, subject and day."""
    given = str(finding.get("finding_id") or "")
    if given:
        return given
    about = "\0".join(str(finding.get(name) or "") for name in ("kind", "cluster_id", "subject", "day"))
    return "d-" + hashlib.sha256(about.encode()).hexdigest()[:16]


def evidence_of(read: Read, finding: Mapping[str, Any]) -> Evidence | None:
    """The series around the alarm; None where the finding rests on no series."""
    known = rescore(read, finding)
    if known is None or not len(known[0]):
        return None
    series, scores = known
    detector = WATCHES.get(str(finding["watch"]))().detector
    unit = series.unit or str(finding.get("unit") or "")
    return evidence(series, scores, detector, unit, finding.get("began_at"), finding.get("ended_at"))


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
    # Values that are never negative have no negative expectation.
    low = np.maximum(scores.low, 0.0) if np.nanmin(series.values, initial=0.0) >= 0 else scores.low
    threshold = float(scores.threshold[peak])
    return Evidence(
        subject=series.subject,
        unit=unit,
        interval_seconds=series.interval_ms / 1000,
        times=tuple(utc(moment) for moment in series.times_ms[shown].tolist()),
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
        began_at=utc(int(series.times_ms[first])),
        ended_at=utc(int(series.times_ms[last])),
        peak=peak - begin,
        threshold=None if threshold >= UNREACHABLE else threshold,
        detector=type(detector).__name__.lower(),
        history_points=first,
        history_since=utc(int(series.times_ms[0])),
        least_points=detector.least_points,
    )


def _nearest(series: Series, scores: Scores, began_at: datetime | None) -> Alarm | None:
    """The alarm that begins closest: the local day of a cluster may begin at another time than that of its series."""
    alarms = alarms_of(series, scores, finding_gap(series))
    if began_at is None:
        return max(alarms, key=lambda alarm: alarm.score, default=None)
    begin = (began_at - EPOCH) / timedelta(milliseconds=1)
    return min(alarms, key=lambda alarm: abs(alarm.begin_ms - begin), default=None)


def _until(alarm: Alarm, series: Series, scores: Scores, ended_at: datetime) -> Alarm:
    """The alarm up to the end of its finding: a detector with a window stays flagged for a while after it."""
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
    """The jobs of its machines, job or user, else of its cluster, at its time; None without a time or without jobs."""
    cluster = text_or_none(finding.get("cluster_id"))
    window = _window(reader, finding, cluster) if reader.tables() >= NEEDED else None
    if window is None:
        return None
    nodes, job = _machines(reader, finding, cluster, evidence), text_or_none(finding.get("job_id"))
    subject = text_or_none(finding.get("subject"))
    is_user = not nodes and not job and reader.query(SQL["user"], user=subject).num_rows > 0
    machines = f"machine{'s' if len(nodes) > 1 else ''} {first_names(nodes)}"
    of = machines if nodes else f"job {job}" if job else f"user {subject}" if is_user else _cluster(cluster)
    jobs = _jobs(reader, window, cluster, nodes, None if nodes else job, subject if is_user else None)
    if jobs or not nodes:
        return _ran(of, window, jobs)
    everywhere = _jobs(reader, window, cluster, [], job, None)
    note = f"none is known to have been on {machines} then"
    return _ran(f"job {job}" if job else _cluster(cluster), window, everywhere, note)


def _machines(
    reader: LakeReader, finding: Mapping[str, Any], cluster: str | None, evidence: Evidence | None
) -> list[str]:
    """The finding's node, or the machines among the metrics of its series with a large share of it."""
    node = text_or_none(finding.get("node"))
    if node:
        return [node]
    carriers = [track.metric for track in evidence.tracks if track.share >= LEAST_SHARE] if evidence else []
    known = set(reader.query(SQL["machines"], cluster=cluster)["machine_id"].to_pylist()) if carriers else set()
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
    rows: list[dict[str, Any]] = reader.query(SQL["ran"], **asked, most=MOST_JOBS).to_pylist()
    return rows


def _ran(of: str, window: tuple[datetime, datetime], rows: list[dict[str, Any]], note: str = "") -> Ran:
    jobs = tuple(RanJob(**{name: value for name, value in row.items() if name != "jobs"}) for row in rows)
    return Ran(of, *window, jobs, rows[0]["jobs"] - len(jobs) if rows else 0, note)


def _window(reader: LakeReader, finding: Mapping[str, Any], cluster: str | None) -> tuple[datetime, datetime] | None:
    """Its time, or its day by the cluster's clock; without an end, up to the end of observation."""
    began, ended = finding.get("began_at"), finding.get("ended_at")
    if isinstance(began, datetime):
        if not isinstance(ended, datetime):
            (row,) = reader.query(SQL["observed"], cluster=cluster).to_pylist()
            ended = began if row["until"] is None else EPOCH + timedelta(seconds=row["until"])
        return began, max(ended, began + timedelta(seconds=1))
    try:
        day = date.fromisoformat(str(finding.get("day") or ""))
    except ValueError:
        return None
    (row,) = reader.query(SQL["day"], cluster=cluster, day=str(day)).to_pylist()
    if row["since"] is None:
        begin = datetime(day.year, day.month, day.day, tzinfo=UTC)
        return begin, begin + timedelta(days=1)
    return EPOCH + timedelta(seconds=row["since"]), EPOCH + timedelta(seconds=row["until"])


def _known(values: Floats) -> tuple[Maybe, ...]:
    return tuple(value if np.isfinite(value) else None for value in values.tolist())
