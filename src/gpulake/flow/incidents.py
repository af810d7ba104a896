"""Incidents as people meet them: listed, looked at, confirmed, corrected."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from gpulake.core.clock import Clock
from gpulake.core.incidents import Incident, confirmed, corrected, histories
from gpulake.diagnose.learn.naming import the_one
from gpulake.lake import Lake

HOW = "gpulake incidents list"


@dataclass(frozen=True)
class Case:
    """An incident, how it came to be as it is, and its last diagnosis."""

    history: tuple[Incident, ...]
    diagnosis: Mapping[str, Any]  # as the journal has it; empty where there is none

    @property
    def incident(self) -> Incident:
        return self.history[-1]


def read_incidents(lake: Lake, state: str | None = None, reason: str | None = None) -> list[Incident]:
    """As they stand, the newest first."""
    newest = [events[-1] for events in histories(lake.journal("incident_events")).values()]
    kept = [one for one in newest if state in (None, one.state) and reason in (None, one.reason)]
    return sorted(kept, key=lambda one: (one.opened_at or one.changed_at, one.incident_id), reverse=True)


def read_case(lake: Lake, given: str) -> Case:
    """By the incident's id, or the beginning of it."""
    known = histories(lake.journal("incident_events"))
    history = known[the_one(given, known, "incident", HOW)]
    last = history[-1]
    own = [row for row in lake.journal("diagnoses") if row.get("incident_id") == last.incident_id]
    named = [row for row in own if row.get("diagnosis_id") == last.diagnosis_id]
    return Case(history, (named or own or [{}])[-1])


def confirm(lake: Lake, clock: Clock, given: str, by: str, note: str = "") -> Incident:
    return _kept(lake, confirmed(read_case(lake, given).incident, by, clock.now(), note))


def correct(
    lake: Lake, clock: Clock, given: str, by: str, reason: str, cause: str = "", remedy: str = "", note: str = ""
) -> Incident:
    return _kept(lake, corrected(read_case(lake, given).incident, by, clock.now(), reason, cause, remedy, note))


def _kept(lake: Lake, incident: Incident) -> Incident:
    lake.append("incident_events", [incident.row()])
    return incident
