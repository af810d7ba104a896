"""An incident: what its events made of it, and which event may follow which."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields, replace
from datetime import datetime
from typing import Any, Literal, get_args

from gpulake.core.diagnosis import CATEGORY_OF, NOT_A_FAILURE, UNKNOWN
from gpulake.core.errors import UsageError, choice_hint
from gpulake.core.sightings import Sighting, sighting

State = Literal["open", "acknowledged", "muted", "resolved"]
Event = Literal["opened", "updated", "confirmed", "corrected", "acknowledged", "muted", "resolved", "reopened"]
STATES: tuple[str, ...] = get_args(State)
EVENTS: tuple[str, ...] = get_args(Event)

# Where each event leads; None: the state stays. And from where it may come; none named: from anywhere.
LEADS_TO: dict[Event, State | None] = {
    "opened": "open",
    "updated": None,
    "confirmed": None,
    "corrected": None,
    "acknowledged": "acknowledged",
    "muted": "muted",
    "resolved": "resolved",
    "reopened": "open",
}
COMES_FROM: dict[Event, tuple[State, ...]] = {
    "acknowledged": ("open", "muted"),
    "muted": ("open", "acknowledged", "muted"),
    "resolved": ("open", "acknowledged", "muted"),
    "reopened": ("acknowledged", "muted", "resolved"),
}
# What a diagnosis says, and a person may put right.
JUDGED = ("category", "reason", "cause", "remedy")
TIMES = ("changed_at", "opened_at", "began_at", "last_seen_at", "muted_until")
# What findings and people said of an incident, which a diagnosis of it leaves as it is.
CARRIED = ("times_seen", "first_cause", "members", "muted_until", "is_held", "merged_into")
LOCK = "incidents"  # whoever changes one takes it
GPULAKE = "gpulake"  # who changes incidents, where it is no person
FAILURE = "failure"  # the kind of those that a diagnosis opened


@dataclass(frozen=True)
class Incident:
    """As it stands after an event. The columns of incident_events, in the order of the table."""

    incident_id: str
    changed_at: datetime
    event: Event
    changed_by: str
    kind: str = FAILURE
    state: State = "open"
    severity: str = "critical"
    subject: str = ""
    cluster_id: str | None = None
    job_id: str | None = None
    node: str | None = None
    opened_at: datetime | None = None
    diagnosis_id: str = ""
    category: str = UNKNOWN
    reason: str = UNKNOWN
    cause: str = ""
    remedy: str = ""
    is_confirmed: bool = False
    words: str = ""
    gpu_hours_lost: float | None = None
    note: str = ""
    began_at: datetime | None = None  # in the data, as is last_seen_at
    last_seen_at: datetime | None = None
    times_seen: int = 1
    first_cause: str = ""
    members: tuple[Sighting, ...] = ()
    muted_until: datetime | None = None
    is_held: bool = False
    merged_into: str = ""
    claimed_job_id: str | None = None
    claimed_node: str | None = None

    def row(self) -> dict[str, Any]:
        told = {column.name: getattr(self, column.name) for column in fields(self)}
        return {**told, "members": [member.row() for member in self.members]}


_COLUMNS = frozenset(column.name for column in fields(Incident))


def changed(incident: Incident, event: Event, by: str, at: datetime, note: str = "", **values: Any) -> Incident:
    """The incident after an event. What a person said of the cause stays, whatever is diagnosed later."""
    allowed = COMES_FROM.get(event)
    if allowed is not None and incident.state not in allowed:
        raise UsageError(
            f"incident {incident.incident_id} is {incident.state}", f"{event} follows {' or '.join(allowed)}"
        )
    if event == "updated" and incident.is_confirmed:
        values = {name: value for name, value in values.items() if name not in (*JUDGED, "is_confirmed")}
    # A clock that was set back must not bring an older state to the top.
    at = max(at, incident.changed_at)
    state = LEADS_TO[event] or incident.state
    return replace(incident, event=event, changed_by=by, changed_at=at, note=note, state=state, **values)


def confirmed(incident: Incident, by: str, at: datetime, note: str = "") -> Incident:
    if incident.reason == UNKNOWN:
        raise UsageError(
            f"incident {incident.incident_id} has no reason that could be confirmed",
            f"say what it was: gpulake incidents correct {incident.incident_id} --reason REASON",
        )
    return changed(incident, "confirmed", by, at, note, is_confirmed=True)


def corrected(
    incident: Incident, by: str, at: datetime, reason: str, cause: str = "", remedy: str = "", note: str = ""
) -> Incident:
    """What was said of another reason is not kept: it would be wrong of this one."""
    if reason not in CATEGORY_OF or reason == UNKNOWN:
        raise UsageError(f"no reason named {reason!r}", choice_hint(reason, set(CATEGORY_OF) - {UNKNOWN}))
    is_same = reason == incident.reason
    said = {
        "category": CATEGORY_OF[reason],
        "reason": reason,
        "cause": cause
        or (incident.cause if is_same else "The job did not fail" if reason == NOT_A_FAILURE else reason),
        "remedy": remedy or (incident.remedy if is_same else ""),
    }
    return changed(incident, "corrected", by, at, note, is_confirmed=True, **said)


def acknowledged(incident: Incident, by: str, at: datetime, note: str = "", is_held: bool = False) -> Incident:
    """Somebody looks after it; one that is held is resolved by nobody but a person."""
    return changed(incident, "acknowledged", by, at, note, is_held=is_held or incident.is_held, muted_until=None)


def muted(incident: Incident, by: str, at: datetime, until: datetime | None = None, note: str = "") -> Incident:
    """Nobody is told of it until then; without a time, until somebody says otherwise."""
    if until is not None and until <= at:
        raise UsageError(f"{until:%Y-%m-%d %H:%M} UTC is over", "name a time to come")
    return changed(incident, "muted", by, at, note, muted_until=until)


def unmuted(incident: Incident, by: str, at: datetime, note: str = "") -> Incident:
    if incident.state != "muted":
        raise UsageError(f"incident {incident.incident_id} is {incident.state}", "only what is muted is unmuted")
    return changed(incident, "reopened", by, at, note, muted_until=None)


def resolved(incident: Incident, by: str, at: datetime, note: str = "") -> Incident:
    return changed(incident, "resolved", by, at, note, is_held=False, muted_until=None)


def histories(rows: Iterable[Mapping[str, Any]]) -> dict[str, tuple[Incident, ...]]:
    """The events of each incident, oldest first. Rows that are none of ours are left out."""
    found: dict[str, list[Incident]] = {}
    read = (incident for row in rows if (incident := _read(row)) is not None)
    for incident in sorted(read, key=lambda incident: incident.changed_at):
        found.setdefault(incident.incident_id, []).append(incident)
    return {name: tuple(events) for name, events in found.items()}


def _read(row: Mapping[str, Any]) -> Incident | None:
    values = {name: value for name, value in row.items() if name in _COLUMNS and value is not None}
    try:
        for name in TIMES:
            if name in values:
                values[name] = datetime.fromisoformat(values[name])
        if "members" in values:
            values["members"] = tuple(member for row in values["members"] if (member := sighting(row)) is not None)
        incident = Incident(**{**values, "incident_id": str(values["incident_id"])})
        is_ours = incident.state in STATES and incident.event in EVENTS and incident.changed_at.tzinfo is not None
    except (TypeError, ValueError, KeyError, AttributeError):
        return None
    return incident if is_ours else None
