"""Incidents as people meet them: listed, looked at, confirmed, corrected, acknowledged, muted, resolved."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Any

from gpulake.act.incidents.found import read_found, sightings
from gpulake.act.incidents.gathering import gather
from gpulake.act.incidents.windows import Window, added, removed, windows
from gpulake.core.clock import Clock
from gpulake.core.config import Config
from gpulake.core.errors import UsageError
from gpulake.core.ids import the_one
from gpulake.core.incidents import (
    LOCK,
    Incident,
    acknowledged,
    confirmed,
    corrected,
    histories,
    muted,
    resolved,
    unmuted,
)
from gpulake.flow.alerting import queue_alerts
from gpulake.lake import Lake

HOW = "gpulake incidents list"
HOW_WINDOWS = "gpulake incidents windows list"
EVENTS = "incident_events"
WINDOWS = "maintenance_window_events"


@dataclass(frozen=True)
class Case:
    """An incident, how it came to be as it is, and its last diagnosis."""

    history: tuple[Incident, ...]
    diagnosis: Mapping[str, Any]  # as the journal has it; empty where there is none

    @property
    def incident(self) -> Incident:
        return self.history[-1]


@dataclass(frozen=True)
class Changes:
    """Incidents as they stand: those that changed, and those that were so already, which a repetition passes over."""

    made: list[Incident]
    skipped: list[Incident]

    @property
    def only(self) -> Incident:
        """Of one that was asked for alone."""
        for one in self.skipped:
            raise UsageError(f"incident {one.incident_id} is {one.state}", "somebody was there before")
        return self.made[0]


def read_incidents(
    lake: Lake, state: str | None = None, reason: str | None = None, kind: str | None = None
) -> list[Incident]:
    """As they stand, the newest first."""
    newest = [events[-1] for events in histories(lake.journal(EVENTS)).values()]
    kept = [
        one
        for one in newest
        if state in (None, one.state) and reason in (None, one.reason) and kind in (None, one.kind)
    ]
    return sorted(kept, key=lambda one: (one.opened_at or one.changed_at, one.incident_id), reverse=True)


def read_case(lake: Lake, given: str) -> Case:
    """By the incident's id, or the beginning of it."""
    known = histories(lake.journal(EVENTS))
    history = known[the_one(given, known, "incident", HOW)]
    last = history[-1]
    own = [row for row in lake.journal("diagnoses") if row.get("incident_id") == last.incident_id]
    named = [row for row in own if row.get("diagnosis_id") == last.diagnosis_id]
    return Case(history, (named or own or [{}])[-1])


def confirm(lake: Lake, clock: Clock, given: str, by: str, note: str = "") -> Incident:
    return _all(lake, clock, [given], lambda one: confirmed(one, by, clock.now(), note)).made[0]


def correct(
    lake: Lake, clock: Clock, given: str, by: str, reason: str, cause: str = "", remedy: str = "", note: str = ""
) -> Incident:
    change = partial(corrected, by=by, at=clock.now(), reason=reason, cause=cause, remedy=remedy, note=note)
    return _all(lake, clock, [given], change).made[0]


def acknowledge(
    lake: Lake, clock: Clock, given: Sequence[str], by: str, note: str = "", is_held: bool = False
) -> Changes:
    def is_done(one: Incident) -> bool:
        return one.state == "acknowledged" and (one.is_held or not is_held)

    return _all(lake, clock, given, lambda one: acknowledged(one, by, clock.now(), note, is_held), is_done)


def mute(
    lake: Lake, clock: Clock, given: Sequence[str], by: str, note: str = "", until: datetime | None = None
) -> Changes:
    return _all(lake, clock, given, lambda one: muted(one, by, clock.now(), until, note))


def unmute(lake: Lake, clock: Clock, given: Sequence[str], by: str, note: str = "") -> Changes:
    return _all(
        lake, clock, given, lambda one: unmuted(one, by, clock.now(), note), lambda one: one.event == "reopened"
    )


def resolve(lake: Lake, clock: Clock, given: Sequence[str], by: str, note: str = "") -> Changes:
    return _all(
        lake, clock, given, lambda one: resolved(one, by, clock.now(), note), lambda one: one.state == "resolved"
    )


def update(lake: Lake, config: Config, clock: Clock) -> list[Incident]:
    """Makes incidents of what the current build found; what changed."""
    now = clock.now()
    with lake.alone(LOCK, is_patient=True):
        rows: list[Mapping[str, Any]] = []
        until = _only_the_clock(now)
        if lake.builds.current() is not None:
            with lake.reading() as reader:
                rows, until = read_found(reader, now)
        # Read after the findings: whoever acknowledged one meanwhile is heard.
        known = histories(lake.journal(EVENTS))
        seen = sightings(rows, config.incidents, until)
        changes = gather(known, seen, until, config.incidents, now)
        lake.append(EVENTS, [change.row() for change in changes])
    queue_alerts(lake, clock)
    return changes


def read_windows(lake: Lake) -> dict[str, Window]:
    return windows(lake.journal(WINDOWS))


def add_window(lake: Lake, clock: Clock, by: str, **values: Any) -> Window:
    window = added(by, clock.now(), **values)
    lake.append(WINDOWS, [window.row()])
    return window


def remove_window(lake: Lake, clock: Clock, given: str, by: str) -> Window:
    known = read_windows(lake)
    window = removed(known[the_one(given, known, "window", HOW_WINDOWS)], by, clock.now())
    lake.append(WINDOWS, [window.row()])
    return window


def _all(
    lake: Lake,
    clock: Clock,
    given: Sequence[str],
    change: Callable[[Incident], Incident],
    is_done: Callable[[Incident], bool] = lambda _: False,
) -> Changes:
    """All of them or none: an id that is wrong costs no other its change, since it is found first. What a crash left
    half done is completed by the same again."""
    with lake.alone(LOCK, is_patient=True):
        known = histories(lake.journal(EVENTS))
        standing = [known[name][-1] for name in dict.fromkeys(the_one(one, known, "incident", HOW) for one in given)]
        changes = [change(one) for one in standing if not is_done(one)]
        lake.append(EVENTS, [one.row() for one in changes])
    queue_alerts(lake, clock)
    return Changes(changes, [one for one in standing if is_done(one)])


def _only_the_clock(now: datetime) -> Callable[[str | None], datetime]:
    return lambda _: now
