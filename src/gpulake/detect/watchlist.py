"""Runs every watch on the tables of a build, and makes its alarms findings."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any

from gpulake.core.kinds import SEVERITIES, kind_of
from gpulake.core.types import Finding
from gpulake.detect.alarms import Alarm, alarms_of, finding_gap
from gpulake.detect.series import EPOCH, Scores, Series, utc
from gpulake.detect.watches import WATCHES, Read, Watch

ANY_ROW = 'SELECT 1 FROM "{}" LIMIT 1'


def run_watches(read: Read) -> list[Finding]:
    """The findings of all watches, the most severe first."""
    tables = _Tables(read)
    findings = [finding for name in WATCHES for finding in _findings(name, WATCHES.get(name)(), read, tables)]
    return sorted(
        _deduplicated(findings), key=lambda one: (SEVERITIES.index(one.severity), -(one.score or 0.0), one.finding_id)
    )


def rescore(read: Read, finding: Mapping[str, Any]) -> tuple[Series, Scores] | None:
    """The series of a finding (a row of the table) and its scores, computed again; None where there is none now."""
    name = str(finding.get("watch") or "")
    if name not in set(WATCHES):
        return None
    plug = WATCHES.get(name)()
    if not _Tables(read).have_rows(plug.tables):
        return None
    about = tuple(finding.get(part) for part in ("cluster_id", "node", "job_id"))
    named = list(plug.series(read, str(finding.get("series") or "")))
    # A finding may be about one machine of a series that is about many.
    same = [one for one in named if (one.cluster_id, one.node, one.job_id) == about]
    same = same or [one for one in named if one.cluster_id == about[0]]
    if not same:
        return None
    # Of a node or GPU there is a series for each job that holds it: that which the finding was made of.
    scored = [(one, plug.detector.score(one)) for one in same]
    given = finding.get("finding_id")
    made = (
        (one, scores)
        for one, scores in (scored if len(scored) > 1 else ())
        if any(each.finding_id == given for each in _described(name, plug, one, scores))
    )
    return next(made, min(scored, key=lambda each: _apart_ms(each[0], finding.get("began_at"))))


def _apart_ms(series: Series, at: datetime | None) -> float:
    """From a moment to the time of a series; 0 within it."""
    if at is None or not len(series):
        return 0.0 if len(series) else float("inf")
    at_ms = (at - EPOCH).total_seconds() * 1000
    return max(0.0, float(series.times_ms[0]) - at_ms, at_ms - float(series.times_ms[-1]))


class _Tables:
    """Which tables have rows; each is queried once."""

    def __init__(self, read: Read) -> None:
        self._read = read
        self._known = set(read("SHOW TABLES")["name"].to_pylist())
        self._has_rows: dict[str, bool] = {}

    def have_rows(self, tables: tuple[str, ...]) -> bool:
        return all(self._has(table) for table in tables)

    def _has(self, table: str) -> bool:
        if table not in self._has_rows:
            self._has_rows[table] = table in self._known and self._read(ANY_ROW.format(table)).num_rows > 0
        return self._has_rows[table]


def _findings(name: str, plug: Watch, read: Read, tables: _Tables) -> Iterator[Finding]:
    if not tables.have_rows(plug.tables):
        return
    detector = plug.detector
    for series in plug.series(read):
        # Too short to be flagged.
        if len(series) <= detector.least_points:
            continue
        yield from _described(name, plug, series, detector.score(series))


def _described(name: str, plug: Watch, series: Series, scores: Scores) -> Iterator[Finding]:
    for alarm in alarms_of(series, scores, finding_gap(series)):
        finding = plug.describe(series, scores, alarm)
        if finding is not None:
            yield _complete(name, finding, series, alarm)


def _deduplicated(findings: list[Finding]) -> Iterator[Finding]:
    """Findings of the same thing at the same time, from one watch or several, become one: the text of the most severe,
    the id and begin of the first, so that the id stays while more is seen."""
    same: dict[tuple[str | None, ...], list[Finding]] = {}
    for one in findings:
        same.setdefault((one.kind, one.cluster_id, one.subject, one.node, one.job_id), []).append(one)
    for group in same.values():
        group.sort(key=lambda one: (_begin(one), one.finding_id))
        kept = group[0]
        for one in group[1:]:
            if _begin(one) > _end(kept):
                yield kept
                kept = one
                continue
            worst = max(kept, one, key=lambda each: (-SEVERITIES.index(each.severity), each.score or 0.0))
            kept = replace(
                worst,
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


def _complete(name: str, finding: Finding, series: Series, alarm: Alarm) -> Finding:
    """Fills in what the watch left out."""
    began = finding.began_at or utc(alarm.begin_ms)
    key = (name, series.cluster_id or "", finding.subject, began.isoformat())
    return replace(
        finding,
        finding_id="f-" + hashlib.sha256("\0".join(key).encode()).hexdigest()[:16],
        severity=finding.severity or kind_of(finding.kind).severity,
        cluster_id=finding.cluster_id or series.cluster_id,
        node=finding.node or series.node,
        job_id=finding.job_id or series.job_id,
        began_at=began,
        ended_at=finding.ended_at or utc(alarm.end_ms + series.interval_ms),
        day=finding.day or str(began.date()),
        watch=name,
        series=series.subject,
        score=alarm.score,
    )
