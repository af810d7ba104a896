"""Findings about the same subject and time become one incident; what is not seen any more is resolved.

A finding belongs to the incident of its cluster and subject whose time, extended on both sides by resolve_after_hours,
overlaps with its own. A finding about the node or the job of a failure that was diagnosed at that time belongs
to that failure. An incident that findings opened before the failure was diagnosed is merged into it.

It is idempotent. While a finding lasts, the incident's last sighting moves in steps, so that the journal does not grow
with every update.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from gpulake.act.incidents.findings import AsOf
from gpulake.core.alert_settings import Incidents
from gpulake.core.incidents import FAILURE, GPULAKE, Histories, Incident, changed, resolution
from gpulake.core.kinds import kind_of, rank, worse
from gpulake.core.sightings import Sighting

MOST_MEMBERS = 20
MOST_WORDS = 300
MOST_ROUNDS = 10
STEPS = 4  # of the last sighting, within resolve_after_hours


def group(
    histories: Histories, seen: Iterable[Sighting], until: AsOf, settings: Incidents, now: datetime
) -> list[Incident]:
    """The changes that bring the incidents up to date, in the order in which they happen."""
    grouping = Grouping(histories, settings, now)
    ordered = sorted(seen, key=lambda one: (one.began_at, one.kind, one.subject, one.cluster_id or ""))
    # An incident that grew may now overlap with a finding that came before it: repeat until nothing changes.
    for _ in range(MOST_ROUNDS):
        made = grouping.made
        for sighting in ordered:
            grouping.take(sighting)
        grouping.merge()
        grouping.unmute()
        grouping.resolve(until)
        if grouping.made == made:
            break
    return grouping.changes


class Grouping:
    def __init__(self, histories: Histories, settings: Incidents, now: datetime) -> None:
        self.made = 0
        self._changes: dict[str, list[Incident]] = {}
        self._pending: dict[str, dict[str, Any]] = {}  # changes too small for a row
        self._now = now
        self._gap = timedelta(hours=settings.resolve_after_hours)
        self._histories = histories
        self._standing = {name: history[-1] for name, history in histories.items()}
        # By subject, job and node: comparing each sighting with every incident would be too slow.
        self._by_word: dict[str, list[str]] = {}
        for incident in self._standing.values():
            self._index(incident)

    def take(self, sighting: Sighting) -> None:
        incident = self._match(sighting)
        if incident is None:
            self._change(_opened(sighting, self._now))
            return
        pending = self._pending.pop(incident.incident_id, {})
        after = _with(replace(incident, **pending), sighting)
        values = {name: getattr(after, name) for name in _FROM_SIGHTINGS}
        is_over = incident.state == "resolved"
        # Nobody has seen what is worse than all that it had: not gpulake or whoever resolved it.
        is_worse = rank(sighting.severity) > rank(incident.severity)
        if is_over and (is_worse or self._is_back(incident, sighting)):
            self._change(changed(incident, "reopened", GPULAKE, self._now, **values))
        elif not is_over and _is_news(incident, after, self._gap / STEPS):
            self._change(changed(incident, "updated", GPULAKE, self._now, note=incident.note, **values))
        else:
            self._pending[incident.incident_id] = values

    def merge(self) -> None:
        """An incident of findings that turns out to be part of a failure is merged into it."""
        for incident in list(self._standing.values()):
            if incident.kind == FAILURE or incident.state == "resolved" or not incident.members or incident.is_held:
                continue
            failure = next((one for member in incident.members for one in self._failures(member)), None)
            if failure is None:
                continue
            after = failure
            for member in incident.members:
                after = _with(after, member)
            values = {name: getattr(after, name) for name in _FROM_SIGHTINGS}
            self._change(changed(failure, "updated", GPULAKE, self._now, note=failure.note, **values))
            note = f"it is part of incident {failure.incident_id}"
            self._change(
                changed(
                    *(incident, "resolved", GPULAKE, self._now, note),
                    merged_into=failure.incident_id,
                    muted_until=None,
                )
            )

    def unmute(self) -> None:
        for incident in list(self._standing.values()):
            is_over = incident.muted_until is not None and incident.muted_until <= self._now
            if incident.state == "muted" and is_over:
                self._change(changed(incident, "reopened", GPULAKE, self._now, "the mute is over", muted_until=None))

    def resolve(self, until: AsOf) -> None:
        """Failures stay until a healthy run or a person resolves them: a dead job is not seen again."""
        for incident in list(self._standing.values()):
            if incident.kind == FAILURE or incident.state == "resolved" or incident.is_held:
                continue
            pending = self._pending.get(incident.incident_id, {})
            last = pending.get("last_seen_at", incident.last_seen_at)
            if last is not None and last + self._open_after(incident) <= until(incident.cluster_id):
                note = f"not seen since {last:%Y-%m-%d %H:%M} UTC"
                self._change(changed(incident, "resolved", GPULAKE, self._now, note, muted_until=None, **pending))

    def _open_after(self, incident: Incident) -> timedelta:
        """How long an incident stays open after it was last seen."""
        kinds = {incident.kind, *(member.kind for member in incident.members if member.severity == "critical")}
        hours = max(kind_of(kind).open_hours for kind in kinds) if incident.severity == "critical" else 0.0
        return max(self._gap, timedelta(hours=hours))

    def _change(self, incident: Incident) -> None:
        self.made += 1
        if incident.incident_id not in self._standing:
            self._index(incident)
        self._standing[incident.incident_id] = incident
        changes = self._changes.setdefault(incident.incident_id, [])
        if changes and incident.event == "updated":
            # One update is one event: not opened first and then worsened.
            changes[-1] = replace(incident, event=changes[-1].event, note=changes[-1].note)
        else:
            changes.append(incident)

    @property
    def changes(self) -> list[Incident]:
        return [change for changes in self._changes.values() for change in changes]

    def _index(self, incident: Incident) -> None:
        for word in {incident.subject, incident.job_id, incident.node} - {None, ""}:
            self._by_word.setdefault(str(word), []).append(incident.incident_id)

    def _named(self, sighting: Sighting) -> Iterator[Incident]:
        words = dict.fromkeys(word for word in (sighting.subject, sighting.node, sighting.job_id) if word)
        names = dict.fromkeys(name for word in words for name in self._by_word.get(word, ()))
        for name in names:
            incident = self._standing[name]
            if None in (incident.cluster_id, sighting.cluster_id) or incident.cluster_id == sighting.cluster_id:
                yield incident

    def _failures(self, sighting: Sighting) -> list[Incident]:
        """Failures of its node or job at its time, the earliest first. Those without a time of failure do not count."""
        found = [
            one
            for one in self._named(sighting)
            if one.kind == FAILURE
            and one.state != "resolved"
            and one.last_seen_at is not None
            and sighting.began_at - self._gap <= one.last_seen_at <= sighting.ended_at + self._gap
        ]
        return sorted(found, key=lambda one: (one.last_seen_at or self._now, one.incident_id))

    def _match(self, sighting: Sighting) -> Incident | None:
        same = self._standing.get(incident_id(sighting))
        found = [
            one
            for one in self._named(sighting)
            if one.kind != FAILURE and one.subject == sighting.subject and self._is_then(one, sighting)
        ]
        found.sort(key=lambda one: self._order(one, sighting))
        match = found[0] if found else same
        # What was merged into a failure belongs to it from then on.
        into = self._standing.get(match.merged_into) if match is not None else None
        if into is not None and into.state != "resolved":
            return into
        if match is not None and match.state != "resolved":
            return match
        failures = self._failures(sighting)
        return failures[0] if failures else match

    def _order(self, one: Incident, sighting: Sighting) -> tuple[bool, bool, bool, datetime, str]:
        """A sighting that belongs to an incident stays with it, whichever others overlap now."""
        is_new = not any(member.is_same_as(sighting) for member in one.members)
        other = one.kind != sighting.kind
        return is_new, one.state == "resolved", other, one.began_at or self._now, one.incident_id

    def _is_then(self, incident: Incident, sighting: Sighting) -> bool:
        began, last = incident.began_at, incident.last_seen_at
        if began is None or last is None:
            return False
        return sighting.began_at <= last + self._gap and sighting.ended_at >= began - self._gap

    def _is_back(self, incident: Incident, sighting: Sighting) -> bool:
        """What a person resolved is reopened only by a sighting well after that."""
        last = incident.last_seen_at
        if last is None or sighting.ended_at <= last:
            return False
        closed = resolution((*self._histories.get(incident.incident_id, ()), incident))
        return closed.changed_by == GPULAKE or sighting.ended_at > closed.changed_at + self._gap


# What a sighting may change.
_FROM_SIGHTINGS = ("severity", "cause", "remedy", "began_at", "last_seen_at", "times_seen", "first_cause", "members")


def incident_id(sighting: Sighting) -> str:
    key = json.dumps([sighting.kind, sighting.cluster_id or "", sighting.subject, sighting.began_at.isoformat()])
    return "i-" + hashlib.sha256(key.encode()).hexdigest()[:16]


def _opened(sighting: Sighting, now: datetime) -> Incident:
    return Incident(
        incident_id=incident_id(sighting),
        changed_at=now,
        event="opened",
        changed_by=GPULAKE,
        kind=sighting.kind,
        severity=sighting.severity,
        subject=sighting.subject,
        cluster_id=sighting.cluster_id,
        job_id=sighting.job_id,
        node=sighting.node,
        opened_at=now,
        reason=sighting.kind,
        cause=sighting.headline,
        remedy=sighting.remedy,
        began_at=sighting.began_at,
        last_seen_at=sighting.ended_at,
        first_cause=_title(sighting),
        members=(sighting,),
    )


def _with(incident: Incident, sighting: Sighting) -> Incident:
    """The incident with one more sighting, or with a longer one in the place of one that it has."""
    same = next((member for member in incident.members if member.is_same_as(sighting)), None)
    is_full = len(incident.members) >= MOST_MEMBERS
    # Members beyond MOST_MEMBERS are not kept: one that began no later than the last member was counted.
    is_counted = same is not None or (is_full and sighting.began_at <= incident.members[-1].began_at)
    others = [member for member in incident.members if member is not same]
    if same is not None:
        began = min(same.began_at, sighting.began_at)
        ended = max(same.ended_at, sighting.ended_at)
        sighting = replace(sighting, began_at=began, ended_at=ended, severity=worse(same.severity, sighting.severity))
    members = sorted([*others, sighting], key=lambda member: (member.began_at, member.kind, member.subject))
    first = members[0]
    is_failure = incident.kind == FAILURE
    return replace(
        incident,
        severity=worse(incident.severity, sighting.severity),
        cause=incident.cause if is_failure or incident.is_confirmed else first.headline,
        remedy=incident.remedy or first.remedy,
        began_at=min(filter(None, (incident.began_at, first.began_at))),
        # A failure keeps the time at which its job died.
        last_seen_at=incident.last_seen_at
        if is_failure
        else max(filter(None, (incident.last_seen_at, sighting.ended_at))),
        times_seen=incident.times_seen + (not is_counted),
        first_cause=_title(first),
        # The first member and the latest ones.
        members=tuple(members if len(members) <= MOST_MEMBERS else [first, *members[-MOST_MEMBERS + 1 :]]),
    )


def _is_news(before: Incident, after: Incident, step: timedelta) -> bool:
    if rank(after.severity) > rank(before.severity) or after.times_seen > before.times_seen:
        return True
    if before.last_seen_at is None or after.last_seen_at is None:
        return before.last_seen_at != after.last_seen_at
    return after.last_seen_at - before.last_seen_at >= step


def _title(sighting: Sighting) -> str:
    return f"{sighting.kind}: {sighting.headline}"[:MOST_WORDS]
