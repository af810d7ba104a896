"""Alerts with the lake: events of incidents are queued, and the queue is sent."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict
from datetime import datetime
from typing import Any

from gpulake.act.alerts.alert import TABLE, Alert, Outbox
from gpulake.act.alerts.queueing import Queueing
from gpulake.act.alerts.sending import LOCK, Drained, Sending
from gpulake.act.incidents.windows import windows
from gpulake.core.clock import Clock
from gpulake.core.errors import LakeBusyError, UsageError
from gpulake.core.ids import the_one
from gpulake.core.incidents import Incident
from gpulake.core.redaction import redacted
from gpulake.flow.runs import recorded
from gpulake.lake import Lake

HOW = "gpulake alerts list"
MOST_MEMBERS = 3
LEAST_WAIT_SECONDS = 1.0
MOST_WAIT_SECONDS = 10.0


def queue_alerts(lake: Lake, clock: Clock) -> list[Alert]:
    """Does nothing without a sink. It takes no lock: queueing is idempotent."""
    settings = lake.config.alerts
    if not settings.sinks:
        return []
    known = lake.incidents.histories()
    standing = list(windows(lake.journal("maintenance_window_events")).values())
    outbox = Outbox(lake.journal(TABLE))
    alerts = Queueing(settings, standing, _Evidence(lake), clock.now()).queue(known, outbox)
    lake.append(TABLE, [alert.row() for alert in alerts])
    return alerts


def send_alerts(lake: Lake, clock: Clock, environment: Mapping[str, str] | None = None) -> Drained:
    return _sending(lake, clock, environment).drain()


def watch_alerts(lake: Lake, clock: Clock, wait: Callable[[float], None]) -> Iterator[Drained]:
    """Repeats, waiting until an alert is due or may have been queued."""
    while True:
        try:
            queue_alerts(lake, clock)
            drained = send_alerts(lake, clock)
        except LakeBusyError:
            # The process that holds the lock sends them; a full disk may have room later.
            wait(LEAST_WAIT_SECONDS)
            continue
        if drained.sent or drained.dropped or drained.failures:
            with recorded(lake, clock, "alerts") as detail:
                detail.update(counts(drained))
        yield drained
        seconds = (drained.next_at - clock.now()).total_seconds() if drained.next_at else MOST_WAIT_SECONDS
        wait(min(max(seconds, LEAST_WAIT_SECONDS), MOST_WAIT_SECONDS))


def counts(drained: Drained) -> dict[str, object]:
    """As a row of `runs` has them."""
    return {name: value for name, value in asdict(drained).items() if name != "next_at"}


def try_sink(lake: Lake, clock: Clock, name: str, environment: Mapping[str, str] | None = None) -> Alert:
    with recorded(lake, clock, "alerts") as detail:
        detail["tested"] = name
        return _sending(lake, clock, environment).test(name)


def read_alerts(
    lake: Lake, state: str | None = None, sink: str | None = None, summary: str | None = None
) -> list[Alert]:
    """As they stand, the newest first."""
    every: list[Alert] = [
        alert
        for alert in Outbox(lake.journal(TABLE))
        if state in (None, alert.state)
        and sink in (None, alert.sink)
        and (summary is None or alert.summary_id == summary)
    ]
    return sorted(every, key=lambda alert: alert.happened_at or alert.changed_at, reverse=True)


def retry_alerts(lake: Lake, clock: Clock, given: Sequence[str]) -> list[Alert]:
    """Those that were dropped are queued again, behind the others; those that failed are tried at once."""
    with recorded(lake, clock, "alerts") as detail, lake.alone(LOCK):
        known = {alert.alert_id: alert for alert in Outbox(lake.journal(TABLE))}
        chosen = [known[name] for name in dict.fromkeys(the_one(one, known, "alert", HOW) for one in given)]
        for alert in chosen:
            if alert.state not in ("dropped", "failed"):
                raise UsageError(
                    f"alert {alert.alert_id} is {alert.state}", "only what failed or was dropped is retried"
                )
        now = clock.now()
        again = [_again(alert, now) for alert in chosen]
        lake.append(TABLE, [alert.row() for alert in again])
        detail["retried"] = len(again)
    return again


def _again(alert: Alert, now: datetime) -> Alert:
    # give_up_after_hours is counted from now.
    return alert.at(now, "queued", next_try_at=None, reason="", tries=0, summary_id="", happened_at=now)


def _sending(lake: Lake, clock: Clock, environment: Mapping[str, str] | None) -> Sending:
    return Sending(lake, lake.config.alerts, clock, os.environ if environment is None else environment)


class _Evidence:
    """Lines that prove an incident, redacted."""

    def __init__(self, lake: Lake) -> None:
        self._lake = lake
        self._diagnoses: dict[str, Mapping[str, Any]] | None = None

    def __call__(self, incident: Incident) -> list[str]:
        details = [member.detail for member in incident.members[-MOST_MEMBERS:] if member.detail]
        if not incident.diagnosis_id:
            return details
        if self._diagnoses is None:
            # Read only for failures: it is the longest journal.
            self._diagnoses = {str(row.get("diagnosis_id")): row for row in self._lake.journal("diagnoses")}
        quotes = self._diagnoses.get(incident.diagnosis_id, {}).get("evidence") or []
        lines = [str(quote.get("text", "")) for quote in quotes if isinstance(quote, dict)]
        return [redacted(line) for line in (*lines, *details)]
