"""Incidents as people meet them: listed, shown, changed by a verb; and made from the findings of a build."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from gpulake.act.incidents.findings import read_findings, sightings
from gpulake.act.incidents.grouping import group
from gpulake.act.incidents.windows import Window, added, removed, windows
from gpulake.core.clock import Clock
from gpulake.core.config import Config
from gpulake.core.errors import UsageError
from gpulake.core.ids import the_one
from gpulake.core.incidents import VERBS, Incident
from gpulake.flow.alerting import queue_alerts
from gpulake.flow.runs import recorded
from gpulake.lake import Lake

HOW = "gpulake incidents list"
HOW_WINDOWS = "gpulake incidents windows list"
WINDOWS = "maintenance_window_events"


@dataclass(frozen=True)
class IncidentFile:
    """An incident, how it came to be as it is, and its last diagnosis."""

    history: tuple[Incident, ...]
    diagnosis: Mapping[str, Any]  # as the journal has it; empty where there is none
    worth: str = ""  # what it would have saved without it, as simulated; empty: it was not priced

    @property
    def incident(self) -> Incident:
        return self.history[-1]


@dataclass(frozen=True)
class Changes:
    """Incidents as they stand: those that changed, and those that a repetition skipped."""

    made: list[Incident]
    skipped: list[Incident]

    @property
    def only(self) -> Incident:
        """Of one incident: a repetition is an error."""
        for one in self.skipped:
            raise UsageError(f"incident {one.incident_id} is {one.state}", "somebody else was first")
        return self.made[0]


def read_incidents(
    lake: Lake, state: str | None = None, reason: str | None = None, kind: str | None = None
) -> list[Incident]:
    """As they stand, the newest first."""
    kept = [
        one
        for one in lake.incidents.standing().values()
        if state in (None, one.state) and reason in (None, one.reason) and kind in (None, one.kind)
    ]
    return sorted(kept, key=lambda one: (one.opened_at or one.changed_at, one.incident_id), reverse=True)


def read_incident(lake: Lake, given: str) -> IncidentFile:
    """By the incident's id, or the beginning of it."""
    known = lake.incidents.histories()
    history = known[the_one(given, known, "incident", HOW)]
    last = history[-1]
    of_incident = [row for row in lake.journal("diagnoses") if row.get("incident_id") == last.incident_id]
    named = [row for row in of_incident if row.get("diagnosis_id") == last.diagnosis_id]
    priced = [row for row in lake.journal("sim_prices") if row["subject_id"] == last.incident_id]
    return IncidentFile(history, (named or of_incident or [{}])[-1], priced[-1]["words"] if priced else "")


def change(
    lake: Lake, clock: Clock, verb: str, given: Sequence[str] | str, by: str, note: str = "", **values: Any
) -> Changes:
    """All of them or none: ids are checked first. Repeating it completes what a crash left half done."""
    change_of, is_done = VERBS[verb].change, VERBS[verb].is_done
    with recorded(lake, clock, "incidents") as detail, lake.incidents.changing() as incidents:
        known = incidents.histories
        names = [the_one(one, known, "incident", HOW) for one in ([given] if isinstance(given, str) else given)]
        standing = [known[name][-1] for name in dict.fromkeys(names)]
        skipped = [one for one in standing if is_done(one, **values)]
        made = [change_of(one, by, clock.now(), note, **values) for one in standing if one not in skipped]
        incidents.append(made)
        detail.update(verb=verb, incident_ids=[one.incident_id for one in made])
    queue_alerts(lake, clock)
    return Changes(made, skipped)


def update(lake: Lake, config: Config, clock: Clock) -> list[Incident]:
    """Makes incidents of the findings of the current build; returns what changed."""
    now = clock.now()

    def until(_: str | None) -> datetime:
        return now

    as_of: Callable[[str | None], datetime] = until
    with lake.incidents.changing() as incidents:
        rows: list[Mapping[str, Any]] = []
        if lake.builds.current() is not None:
            with lake.reading() as reader:
                rows, as_of = read_findings(reader, now)
        changes = group(incidents.histories, sightings(rows, config.incidents, as_of), as_of, config.incidents, now)
        incidents.append(changes)
    queue_alerts(lake, clock)
    return changes


def read_windows(lake: Lake) -> dict[str, Window]:
    return windows(lake.journal(WINDOWS))


def add_window(lake: Lake, clock: Clock, by: str, **values: Any) -> Window:
    with recorded(lake, clock, "windows"):
        window = added(by, clock.now(), **values)
        lake.append(WINDOWS, [window.row()])
    return window


def remove_window(lake: Lake, clock: Clock, given: str, by: str) -> Window:
    with recorded(lake, clock, "windows"):
        known = read_windows(lake)
        window = removed(known[the_one(given, known, "window", HOW_WINDOWS)], by, clock.now())
        lake.append(WINDOWS, [window.row()])
    return window
