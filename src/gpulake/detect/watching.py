"""Every watch over the tables of a build: what the detectors say of the lake, as findings."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any

from gpulake.core.kinds import SEVERITIES
from gpulake.core.types import Finding
from gpulake.detect.alarms import Alarm, alarms_of
from gpulake.detect.series import Scores
from gpulake.detect.telling import EPOCH, at, gap_of
from gpulake.detect.watches import WATCHES, Read, Watch, Watched

ANY_ROW = 'SELECT 1 FROM "{}" LIMIT 1'


def watch(read: Read) -> list[Finding]:
    """What the watches found, the worst first. A watch whose tables are not there, or have no rows, sees nothing."""
    rows = _Rows(read)
    found = [finding for name in WATCHES for finding in _findings(name, WATCHES.get(name)(), read, rows)]
    return sorted(_once(found), key=lambda one: (SEVERITIES.index(one.severity), -(one.score or 0.0), one.finding_id))


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
        self._known = set(read("SHOW TABLES")["name"].to_pylist())
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


def _once(found: list[Finding]) -> Iterator[Finding]:
    """What several watches, or one of them twice, say of the same thing at the same time is told once, in the words of
    the strongest. It is known by what was seen first, which stays as it is while more is seen."""
    same: dict[tuple[str | None, ...], list[Finding]] = {}
    for one in found:
        same.setdefault((one.kind, one.cluster_id, one.subject, one.node, one.job_id), []).append(one)
    for group in same.values():
        group.sort(key=lambda one: (_begin(one), one.finding_id))
        kept = group[0]
        for one in group[1:]:
            if _begin(one) > _end(kept):
                yield kept
                kept = one
                continue
            words = max(kept, one, key=lambda each: (-SEVERITIES.index(each.severity), each.score or 0.0))
            kept = replace(
                words,
                finding_id=kept.finding_id,
                began_at=kept.began_at,
                day=kept.day,
                ended_at=max(_end(kept), _end(one)),
            )
        yield kept


def _begin(finding: Finding) -> datetime:
    return finding.began_at or EPOCH


def _end(finding: Finding) -> datetime:
    return finding.ended_at or _begin(finding)


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
