"""An incident, its states, and the events that change it: which may follow which, and in which order they count."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Literal, TypeAlias, get_args

from gpulake.core.diagnosis import CATEGORY_OF, NOT_A_FAILURE, UNKNOWN
from gpulake.core.errors import UsageError, choice_hint
from gpulake.core.rows import as_row, from_row
from gpulake.core.sightings import Sighting

State = Literal["open", "acknowledged", "muted", "resolved"]
Event = Literal[
    "opened",
    "updated",
    "confirmed",
    "corrected",
    "commented",
    "assigned",
    "acknowledged",
    "muted",
    "resolved",
    "reopened",
]
STATES: tuple[State, ...] = get_args(State)
UNRESOLVED: tuple[State, ...] = ("open", "acknowledged", "muted")


@dataclass(frozen=True)
class Transition:
    comes_from: tuple[State, ...] = STATES  # empty: only a new incident
    leads_to: State | None = None  # None: the state stays


TRANSITIONS: Mapping[Event, Transition] = {
    "opened": Transition((), "open"),
    "updated": Transition(),
    "confirmed": Transition(),
    "corrected": Transition(),
    "commented": Transition(),
    "assigned": Transition(UNRESOLVED),
    "acknowledged": Transition(("open", "muted"), "acknowledged"),
    "muted": Transition(UNRESOLVED, "muted"),
    "resolved": Transition(UNRESOLVED, "resolved"),
    "reopened": Transition(("acknowledged", "muted", "resolved"), "open"),
}
# What a diagnosis says, and a person may correct.
JUDGED = ("category", "reason", "cause", "remedy")
LOCK = "incidents"  # held while incidents are changed
GPULAKE = "gpulake"  # changed_by, where it is no person
FAILURE = "failure"  # the kind of incident that a diagnosis opens


@dataclass(frozen=True)
class Incident:
    """The state after an event. The columns of incident_events, in the order of the table."""

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
    began_at: datetime | None = None  # by the data, as is last_seen_at
    last_seen_at: datetime | None = None
    times_seen: int = 1
    first_cause: str = ""
    members: tuple[Sighting, ...] = ()
    muted_until: datetime | None = None
    is_held: bool = False
    merged_into: str = ""
    claimed_job_id: str | None = None
    claimed_node: str | None = None
    assigned_to: str = ""
    revision: int = 1

    def row(self) -> dict[str, Any]:
        return {**as_row(self), "members": [member.row() for member in self.members]}

    @property
    def order(self) -> tuple[datetime, int]:
        """Its position among the events of the incident, wherever it is in the journal. A clock that was set back
        gives the time of the event before it, and the next revision."""
        return self.changed_at, self.revision


Histories: TypeAlias = Mapping[str, Sequence[Incident]]  # the events of each incident, oldest first


def changed(incident: Incident, event: Event, by: str, at: datetime, note: str = "", **values: Any) -> Incident:
    """The incident after an event. A later diagnosis does not replace the reason that a person gave."""
    transition = TRANSITIONS[event]
    if incident.state not in transition.comes_from:
        states = " or ".join(transition.comes_from)
        raise UsageError(f"incident {incident.incident_id} is {incident.state}", f"{event} follows {states}")
    if event == "updated" and incident.is_confirmed:
        values = {name: value for name, value in values.items() if name not in (*JUDGED, "is_confirmed")}
    return replace(
        incident,
        event=event,
        changed_by=by,
        changed_at=max(at, incident.changed_at),
        revision=incident.revision + 1,
        note=note,
        state=transition.leads_to or incident.state,
        **values,
    )


def confirmed(incident: Incident, by: str, at: datetime, note: str = "") -> Incident:
    if incident.reason == UNKNOWN:
        raise UsageError(
            f"incident {incident.incident_id} has no reason that could be confirmed",
            f"say what it was: gpulake incidents correct {incident.incident_id} --reason REASON",
        )
    return changed(incident, "confirmed", by, at, note, is_confirmed=True)


def corrected(
    incident: Incident, by: str, at: datetime, note: str = "", *, reason: str, cause: str = "", remedy: str = ""
) -> Incident:
    """Cause and remedy of another reason are not kept: they would be wrong."""
    if reason not in CATEGORY_OF or reason == UNKNOWN:
        raise UsageError(f"no reason named {reason!r}", choice_hint(reason, set(CATEGORY_OF) - {UNKNOWN}))
    is_same = reason == incident.reason
    default = incident.cause if is_same else "The job did not fail" if reason == NOT_A_FAILURE else reason
    values = {
        "category": CATEGORY_OF[reason],
        "reason": reason,
        "cause": cause or default,
        "remedy": remedy or (incident.remedy if is_same else ""),
    }
    return changed(incident, "corrected", by, at, note, is_confirmed=True, **values)


def acknowledged(incident: Incident, by: str, at: datetime, note: str = "", is_held: bool = False) -> Incident:
    """One that is held is resolved by a person only."""
    return changed(incident, "acknowledged", by, at, note, is_held=is_held or incident.is_held, muted_until=None)


def muted(incident: Incident, by: str, at: datetime, note: str = "", until: datetime | None = None) -> Incident:
    """No alerts until then; without a time, until it is unmuted."""
    if until is not None and until <= at:
        raise UsageError(f"{until:%Y-%m-%d %H:%M} UTC is over", "name a time to come")
    return changed(incident, "muted", by, at, note, muted_until=until)


def unmuted(incident: Incident, by: str, at: datetime, note: str = "") -> Incident:
    if incident.state != "muted":
        raise UsageError(f"incident {incident.incident_id} is {incident.state}", "only what is muted is unmuted")
    return changed(incident, "reopened", by, at, note, muted_until=None)


def resolved(incident: Incident, by: str, at: datetime, note: str = "") -> Incident:
    return changed(incident, "resolved", by, at, note, is_held=False, muted_until=None)


def reopened(incident: Incident, by: str, at: datetime, note: str = "") -> Incident:
    """It is held open: otherwise the next update would resolve it at once if it is not seen any more."""
    return changed(incident, "reopened", by, at, note, is_held=True, muted_until=None, merged_into="")


def assigned(incident: Incident, by: str, at: datetime, note: str = "", *, to: str) -> Incident:
    """Unassigns the incident if the name is empty."""
    return changed(incident, "assigned", by, at, note, assigned_to=to)


def commented(incident: Incident, by: str, at: datetime, note: str = "") -> Incident:
    if not note.strip():
        raise UsageError("the comment is empty", "say what others should know")
    return changed(incident, "commented", by, at, note)


@dataclass(frozen=True)
class Verb:
    """What a person may do to an incident, by the command line or the web."""

    change: Callable[..., Incident]
    comes_from: tuple[State, ...] = STATES
    is_done: Callable[..., bool] = lambda _, **_values: False  # a repetition, which is skipped


VERBS: Mapping[str, Verb] = {
    "acknowledge": Verb(
        acknowledged,
        TRANSITIONS["acknowledged"].comes_from,
        lambda one, is_held=False: one.state == "acknowledged" and (one.is_held or not is_held),
    ),
    "assign": Verb(assigned, TRANSITIONS["assigned"].comes_from, lambda one, to: one.assigned_to == to),
    "comment": Verb(commented),
    "confirm": Verb(confirmed),
    "correct": Verb(corrected),
    "mute": Verb(muted, TRANSITIONS["muted"].comes_from),
    "unmute": Verb(unmuted, ("muted",), lambda one: one.event == "reopened"),
    "reopen": Verb(reopened, TRANSITIONS["reopened"].comes_from, lambda one: one.state == "open"),
    "resolve": Verb(resolved, TRANSITIONS["resolved"].comes_from, lambda one: one.state == "resolved"),
}


def histories(rows: Iterable[Mapping[str, Any]]) -> dict[str, tuple[Incident, ...]]:
    """The events of each incident, oldest first. Rows that are no incident are skipped."""
    found: dict[str, list[Incident]] = {}
    read = (incident for row in rows if (incident := _read(row)) is not None)
    for incident in sorted(read, key=lambda incident: incident.order):
        found.setdefault(incident.incident_id, []).append(incident)
    return {name: tuple(events) for name, events in found.items()}


def resolution(history: Sequence[Incident]) -> Incident:
    """The event that closed an incident that is resolved now."""
    closed = history[-1]
    for event in reversed(history):
        if event.state != "resolved":
            break
        closed = event
    return closed


def _read(row: Mapping[str, Any]) -> Incident | None:
    members = row.get("members")
    if isinstance(members, list):
        read = [from_row(Sighting, member) for member in members if isinstance(member, dict)]
        row = {**row, "members": tuple(member for member in read if member is not None)}
    incident = from_row(Incident, row)
    if incident is None or not isinstance(incident.incident_id, str) or not isinstance(incident.revision, int):
        return None
    return incident if incident.state in STATES and incident.event in TRANSITIONS else None
