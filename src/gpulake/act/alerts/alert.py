"""An alert: one event of one incident for one sink, and how far it has come."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any, Literal, get_args

from gpulake.core.rows import as_row, from_row

State = Literal["queued", "sending", "sent", "failed", "dropped"]
STATES: tuple[str, ...] = get_args(State)
TABLE = "alert_events"
TEST = "test"
SUMMARY = "summary"
_TICK = timedelta(microseconds=1)


@dataclass(frozen=True)
class Alert:
    """The columns of alert_events, in the order of the table."""

    alert_id: str
    changed_at: datetime
    state: State
    sink: str
    event: str  # opened, worsened, reopened, outlasted, resolved; test; or summary, which is in no row
    incident_id: str = ""
    severity: str = "warning"
    kind: str = ""
    cluster_id: str | None = None
    node: str | None = None
    job_id: str | None = None
    subject: str = ""
    title: str = ""
    body: str = ""
    link: str = ""
    happened_at: datetime | None = None
    began_at: datetime | None = None
    is_over: bool = False  # already when it is sent for the first time
    tries: int = 0
    next_try_at: datetime | None = None
    summary_id: str = ""
    reason: str = ""

    @property
    def is_waiting(self) -> bool:
        return self.state in ("queued", "sending", "failed")

    def row(self) -> dict[str, Any]:
        return as_row(self)

    def at(self, now: datetime, state: State, **values: Any) -> Alert:
        """The next row of it: later than the last, though the clock may have been set back."""
        return replace(self, state=state, changed_at=max(now, self.changed_at + _TICK), **values)


def alert_id(incident: str, event: str, key: str, sink: str) -> str:
    return "a-" + hashlib.sha256(json.dumps([incident, event, key, sink]).encode()).hexdigest()[:20]


def summary_id(alerts: Iterable[Alert]) -> str:
    return "s-" + hashlib.sha256("\n".join(alert.alert_id for alert in alerts).encode()).hexdigest()[:20]


class Outbox:
    """Every alert as it stands, in the order in which they were queued."""

    def __init__(self, rows: Iterable[Mapping[str, Any]] = ()) -> None:
        self._alerts: dict[str, Alert] = {}
        for row in rows:
            alert = from_row(Alert, row)
            if alert is not None and alert.state in STATES:
                self.take(alert)

    def take(self, alert: Alert) -> None:
        known = self._alerts.get(alert.alert_id)
        if known is not None and alert.changed_at <= known.changed_at:
            return
        if known is not None and not known.is_waiting:
            # One that is queued again goes to the end.
            del self._alerts[alert.alert_id]
        self._alerts[alert.alert_id] = alert

    def get(self, name: str) -> Alert | None:
        return self._alerts.get(name)

    def __iter__(self) -> Any:
        return iter(self._alerts.values())

    def __len__(self) -> int:
        return len(self._alerts)

    def waiting(self, sink: str | None = None) -> list[Alert]:
        return [alert for alert in self._alerts.values() if alert.is_waiting and sink in (None, alert.sink)]

    def has_sent(self, summary: str) -> bool:
        return any(alert.summary_id == summary and alert.state == "sent" for alert in self._alerts.values())

    def sent_at(self, sink: str) -> list[datetime]:
        """When the sink was last sent something; a summary counts once."""
        sent = [alert for alert in self._alerts.values() if alert.sink == sink and alert.state == "sent"]
        return sorted({alert.summary_id or alert.alert_id: alert.changed_at for alert in sent}.values())
