"""Every watch over the tables of a build: what the detectors say of the lake, as findings."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from gpulake.core.types import Finding
from gpulake.detect.alarms import Alarm, alarms_of, usual_gap
from gpulake.detect.series import Scores, Series
from gpulake.detect.telling import at
from gpulake.detect.watches import WATCHES, Read, Watch, Watched

JOINED_MS = 6 * 3_600_000
SEVERITIES = ("critical", "warning", "info")
ANY_ROW = 'SELECT 1 FROM "{}" LIMIT 1'
TABLES = "SELECT table_name FROM duckdb_tables() WHERE database_name = 'lake'"


def watch(read: Read) -> list[Finding]:
    """What the watches found, the worst first. A watch whose tables are not there, or have no rows, sees nothing."""
    rows = _Rows(read)
    found = [finding for name in WATCHES for finding in _findings(name, WATCHES.get(name)(), read, rows)]
    return sorted(found, key=lambda one: (SEVERITIES.index(one.severity), -(one.score or 0.0), one.finding_id))


def again(read: Read, finding: Mapping[str, Any]) -> tuple[Watched, Scores] | None:
    """The series of a finding, as a row of the table, and its scores, made anew; nothing where there is none now."""
    name = str(finding.get("watch") or "")
    if name not in set(WATCHES):
        return None
    plug = WATCHES.get(name)()
    if not _Rows(read).has_all(plug.tables):
        return None
    about = tuple(finding.get(part) for part in ("cluster_id", "node", "job_id"))
    named = list(plug.watched(read, str(finding.get("series") or "")))
    # A finding may be about one machine of a series that is about many.
    same = [one for one in named if (one.cluster_id, one.node, one.job_id) == about]
    same = same or [one for one in named if one.cluster_id == about[0]]
    return (same[0], plug.detector.score(same[0].series)) if same else None


class _Rows:
    """Which tables have rows; each is asked once."""

    def __init__(self, read: Read) -> None:
        self._read = read
        self._known = set(read(TABLES)["table_name"].to_pylist())
        self._has_rows: dict[str, bool] = {}

    def has_all(self, tables: tuple[str, ...]) -> bool:
        return all(self._has(table) for table in tables)

    def _has(self, table: str) -> bool:
        if table not in self._has_rows:
            is_there = table in self._known
            self._has_rows[table] = is_there and self._read(ANY_ROW.format(table)).num_rows > 0
        return self._has_rows[table]


def _findings(name: str, plug: Watch, read: Read, rows: _Rows) -> Iterator[Finding]:
    if not rows.has_all(plug.tables):
        return
    detector = plug.detector
    for watched in plug.watched(read):
        # What cannot flag is not scored.
        if len(watched.series) <= detector.least_points:
            continue
        scores = detector.score(watched.series)
        if not scores.is_flagged.any():
            continue
        for alarm in alarms_of(watched.series, scores, gap_of(watched.series)):
            told = plug.told(watched, scores, alarm)
            if told is not None:
                yield _complete(name, told, watched, alarm)


def gap_of(series: Series) -> int:
    """As many points as an alarm may pause: as usual, but of hours six and of days one."""
    return min(usual_gap(series.interval_ms), max(1, JOINED_MS // series.interval_ms))


def _complete(name: str, told: Finding, watched: Watched, alarm: Alarm) -> Finding:
    """What a watch did not say itself."""
    began = told.began_at or at(alarm.begin_ms)
    subject = (name, watched.cluster_id or "", told.subject, began.isoformat())
    return replace(
        told,
        finding_id="f-" + hashlib.sha256("\0".join(subject).encode()).hexdigest()[:16],
        cluster_id=told.cluster_id or watched.cluster_id,
        node=told.node or watched.node,
        job_id=told.job_id or watched.job_id,
        began_at=began,
        ended_at=told.ended_at or at(alarm.end_ms + watched.series.interval_ms),
        day=told.day or str(began.date()),
        watch=name,
        series=watched.series.subject,
        score=alarm.score,
    )
