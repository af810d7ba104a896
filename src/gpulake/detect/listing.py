"""Findings of the current build: listed, and explained by their series and by the jobs of that time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from gpulake.core.clock import midnight
from gpulake.core.errors import UsageError, choice_hint
from gpulake.core.explanation import Explanation
from gpulake.core.ids import the_one
from gpulake.core.incidents import Incident
from gpulake.core.kinds import rank, severity_of
from gpulake.core.sightings import Sighting
from gpulake.detect.evidence import evidence_of, id_of, ran
from gpulake.detect.watches import WATCHES, about
from gpulake.lake import Lake, LakeReader

HOW = "gpulake detect list, gpulake incidents list"
FINDINGS = "SELECT * FROM findings ORDER BY rank"
Row = dict[str, Any]


@dataclass(frozen=True)
class Listed:
    """A finding that speaks of a time."""

    finding_id: str
    severity: str
    at: datetime  # when it began, or the begin of its day
    row: Row


@dataclass(frozen=True)
class WatchState:
    name: str
    about: str
    tables: tuple[str, ...]
    detector: str
    least_points: int
    empty: tuple[str, ...]  # tables of it that are not built or have no rows: it sees nothing
    findings: int  # of the current build


def read_findings(
    lake: Lake,
    kind: str | None = None,
    severity: str | None = None,
    watch: str | None = None,
    since: datetime | None = None,
) -> list[Listed]:
    """Those that have a time, the most severe first and of those the newest."""
    if watch is not None and watch not in set(WATCHES):
        raise UsageError(f"no watch named {watch!r}", choice_hint(watch, WATCHES))
    with _reading(lake) as reader:
        listed = _listed(lake, _findings(reader))
    kept = [
        one
        for one in listed
        if kind in (None, one.row["kind"])
        and severity in (None, one.severity)
        and watch in (None, one.row.get("watch"))
        and (since is None or (one.row.get("ended_at") or one.at) >= since)
    ]
    return sorted(kept, key=lambda one: (-rank(one.severity), -one.at.timestamp(), one.finding_id))


def read_watches(lake: Lake) -> list[WatchState]:
    with _reading(lake) as reader:
        full = {table for table, rows in reader.counts().items() if rows}
        found = Counter(str(row.get("watch") or "") for row in _findings(reader))
    plugs = {name: WATCHES.get(name)() for name in WATCHES}
    return [
        WatchState(
            name=name,
            about=about(name),
            tables=plug.tables,
            detector=type(plug.detector).__name__.lower(),
            least_points=plug.detector.least_points,
            empty=tuple(table for table in plug.tables if table not in full),
            findings=found[name],
        )
        for name, plug in plugs.items()
    ]


def explain(lake: Lake, given: str) -> Explanation:
    """By the id of a finding or of an incident, or the beginning of one."""
    incidents = lake.open().incidents.standing()
    with _reading(lake) as reader:
        findings = {id_of(row): row for row in _findings(reader)}
        name = the_one(given, {*findings, *incidents}, "id", HOW)
        is_found = name in findings
        chosen, others = (findings[name], []) if is_found else _of_incident(incidents[name], findings.values())
        severity = _severity(lake, chosen)
        headlines = tuple(str(row.get("headline") or "") for row in others)
        evidence = evidence_of(reader.query, chosen)
        return Explanation(name, chosen, severity, evidence, ran(reader, chosen, evidence), headlines)


def _reading(lake: Lake) -> Any:
    if lake.open().builds.current() is None:
        raise UsageError(f"the lake at {lake.root} has no build yet", "run: gpulake build")
    return lake.reading()


def _findings(reader: LakeReader) -> list[Row]:
    if "findings" not in reader.tables():
        raise UsageError("the current build has no findings: it is a part of one", "run: gpulake build")
    rows: list[Row] = reader.query(FINDINGS).to_pylist()
    return rows


def _listed(lake: Lake, rows: Iterable[Row]) -> list[Listed]:
    found = []
    for row in rows:
        at = row.get("began_at") or midnight(row.get("day"))
        if at is not None:
            found.append(Listed(id_of(row), _severity(lake, row), at, row))
    return found


def _severity(lake: Lake, row: Row) -> str:
    return severity_of(row, str(row.get("kind") or ""), lake.config.incidents)


def _of_incident(incident: Incident, findings: Iterable[Row]) -> tuple[Row, list[Row]]:
    """The finding of it that has the most to show, and the others; a row made of the incident where there is none."""
    members = [row for row in findings if any(_is_member(row, member) for member in incident.members)]
    if members:
        chosen = max(members, key=lambda row: (bool(row.get("watch")), row.get("score") or 0.0, -row["rank"]))
        return chosen, [row for row in members if row is not chosen]
    row = {
        "kind": incident.kind,
        "subject": incident.subject,
        "headline": incident.cause or incident.first_cause,
        "detail": incident.first_cause,
        "severity": incident.severity,
        "remedy": incident.remedy,
        "cluster_id": incident.cluster_id,
        "node": incident.node,
        "job_id": incident.job_id,
        "began_at": incident.began_at,
        "ended_at": incident.last_seen_at,
    }
    return row, []


def _is_member(row: Mapping[str, Any], member: Sighting) -> bool:
    if (row["kind"], row["subject"], row.get("cluster_id")) != (member.kind, member.subject, member.cluster_id):
        return False
    began = row.get("began_at")
    # One that is about a day names it as its subject; one of a time may be found a little earlier or later.
    return began is None or (began <= member.ended_at and member.began_at <= (row.get("ended_at") or member.ended_at))
