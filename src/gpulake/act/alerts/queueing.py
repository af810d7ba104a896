"""Which events of incidents become alerts, and for which sinks. It is idempotent.

A sink is notified when an incident opens, gets worse or reopens, and when one that it was notified of is resolved. An
alert that is suppressed, by a mute, by a maintenance window or because it is too old, is a row with the reason.
"""

from __future__ import annotations

import fnmatch
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from gpulake.act.alerts.alert import Alert, Outbox, State, alert_id
from gpulake.act.alerts.wording import title_and_body, words
from gpulake.act.incidents.windows import Window, covering
from gpulake.core.alert_settings import Alerts, SinkSettings
from gpulake.core.incidents import FAILURE, Incident
from gpulake.core.kinds import rank
from gpulake.core.placeholders import filled
from gpulake.core.words import span

IN_A_WINDOW = "maintenance window"
Evidence = Callable[[Incident], Sequence[str]]


@dataclass(frozen=True)
class Event:
    """A change of an incident that may be sent."""

    name: str  # opened, worsened, reopened, resolved, outlasted
    incident: Incident  # as it was then
    key: str  # distinguishes it from other events of the incident
    is_over: bool = False


@dataclass(frozen=True)
class Queueing:
    settings: Alerts
    windows: Sequence[Window]
    evidence: Evidence
    now: datetime

    def queue(self, histories: Mapping[str, Sequence[Incident]], outbox: Outbox) -> list[Alert]:
        """Alerts that are not in the outbox yet, in the order of their events."""
        stale = timedelta(hours=self.settings.most_stale_hours)
        # Older incidents are skipped without a row: a new sink would otherwise get the whole history.
        recent = [one for one in histories.values() if self.now - one[-1].changed_at <= 2 * stale or _is_open(one[-1])]
        alerts = [
            alert
            for history in recent
            for known in [list(events(history))]
            for sink, sink_settings in self.settings.sinks.items()
            for alert in self._for_sink(history[-1], known, sink, sink_settings, outbox)
        ]
        return sorted(alerts, key=lambda alert: (alert.happened_at or self.now, alert.incident_id))

    def _for_sink(
        self, last: Incident, happened: Sequence[Event], name: str, sink: SinkSettings, outbox: Outbox
    ) -> Iterator[Alert]:
        is_notified = False
        suppressed: Alert | None = None
        for event in happened:
            is_end = event.name == "resolved"
            if event.name not in sink.events or not (is_notified if is_end else _is_routed(sink, event)):
                continue
            known = outbox.get(alert_id(event.incident.incident_id, event.name, event.key, name))
            alert = known or self._alert(event, name, sink)
            if alert is None:
                continue
            if known is None:
                yield alert
            is_dropped = alert.state == "dropped"
            is_notified = not is_end and (is_notified or not is_dropped)
            suppressed = alert if is_dropped and alert.reason.startswith(IN_A_WINDOW) else None
            is_notified = is_notified or (suppressed is not None and outbox.get(_outlasted(suppressed)) is not None)
        if suppressed is not None and not is_notified and self._outlasts(last, sink, suppressed):
            later = self._alert(Event("outlasted", last, suppressed.alert_id), name, sink)
            if later is not None:
                yield replace(later, changed_at=self.now, happened_at=self.now)

    def _outlasts(self, last: Incident, sink: SinkSettings, suppressed: Alert) -> bool:
        """It lasts longer than the window that suppressed it. A failed job is not seen again."""
        if last.kind == FAILURE or last.state != "open" or "outlasted" not in sink.events:
            return False
        is_seen = last.last_seen_at is not None and last.last_seen_at > (
            suppressed.happened_at or suppressed.changed_at
        )
        return is_seen and covering(self.windows, last, self.now) is None

    def _alert(self, event: Event, name: str, sink: SinkSettings) -> Alert | None:
        incident = event.incident
        age = self.now - incident.changed_at
        stale = timedelta(hours=self.settings.most_stale_hours)
        if age > 2 * stale:
            return None
        reason = "" if event.name == "resolved" else self._suppressed_by(event, stale)
        if not reason and age > stale:
            reason = f"it happened {span(age.total_seconds())} ago"
        state: State = "dropped" if reason else "queued"
        values = words(incident, event.name, self.evidence(incident) if state == "queued" else (), self.settings)
        title, body = title_and_body(sink, self.settings, values)
        return Alert(
            alert_id=alert_id(incident.incident_id, event.name, event.key, name),
            # The time of the event and not of the clock: two processes that queue it at once write the same row.
            changed_at=incident.changed_at,
            state=state,
            sink=name,
            event=event.name,
            incident_id=incident.incident_id,
            severity=incident.severity,
            kind=incident.kind,
            cluster_id=incident.cluster_id,
            node=incident.node,
            job_id=incident.job_id,
            subject=incident.subject,
            title=title,
            body=body,
            link=filled([self.settings.link], {"incident_id": incident.incident_id})[0],
            happened_at=incident.changed_at,
            began_at=incident.opened_at or incident.changed_at,
            is_over=event.is_over,
            reason=reason,
        )

    def _suppressed_by(self, event: Event, stale: timedelta) -> str:
        incident = event.incident
        if incident.state == "muted":
            until = f" until {incident.muted_until:%Y-%m-%d %H:%M} UTC" if incident.muted_until else ""
            return f"it is muted{until}"
        if event.name == "outlasted":
            return ""
        window = covering(self.windows, incident, incident.changed_at)
        if window is not None:
            return f"{IN_A_WINDOW} {window.window_id}"
        last = incident.last_seen_at
        if last is not None and self.now - last > stale:
            return f"it was last seen {span((self.now - last).total_seconds())} ago"
        return ""


def events(history: Sequence[Incident]) -> Iterator[Event]:
    """The events of an incident that may be sent, oldest first."""
    before: Incident | None = None
    over = {one.changed_at: one for one in history if one.event == "resolved"}
    for one in history:
        name = _event(before, one)
        before = one
        if name is None:
            continue
        key = f"{one.changed_at.isoformat()} {one.severity}"
        # What was over when it was found is sent once, without a second alert that it is over.
        end = over.get(one.changed_at)
        if name == "resolved":
            if not any(other.changed_at == one.changed_at and other.event in _BEGINNINGS for other in history):
                yield Event(name, one, key)
        else:
            yield Event(name, replace(one, state="resolved") if end else one, key, is_over=end is not None)


_BEGINNINGS = ("opened", "reopened")


def _outlasted(suppressed: Alert) -> str:
    """The id of the alert for an incident that outlasts the window that suppressed it."""
    return alert_id(suppressed.incident_id, "outlasted", suppressed.alert_id, suppressed.sink)


def _event(before: Incident | None, one: Incident) -> str | None:
    if one.event in _BEGINNINGS:
        return one.event
    if one.state == "resolved":
        return "resolved" if before is not None and before.state != "resolved" else None
    return "worsened" if before is not None and rank(one.severity) > rank(before.severity) else None


def _is_open(incident: Incident) -> bool:
    return incident.state != "resolved"


def _is_routed(sink: SinkSettings, event: Event) -> bool:
    incident = event.incident
    if sink.severities and incident.severity not in sink.severities:
        return False
    return _is_like(incident.kind, sink.kinds) and _is_like(incident.cluster_id or "", sink.clusters)


def _is_like(name: str, patterns: Sequence[str]) -> bool:
    return not patterns or any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns)
