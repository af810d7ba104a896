"""How an alert is printed. Its texts may come from a log: control characters are replaced."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gpulake.core.words import label

if TYPE_CHECKING:
    from gpulake.act.alerts.alert import Alert

COLUMNS = ("alert", "happened (UTC)", "state", "sink", "event", "severity", "tries", "title", "reason")


def alert_line(alert: Alert) -> tuple[Any, ...]:
    return (
        alert.alert_id,
        f"{alert.happened_at or alert.changed_at:%Y-%m-%d %H:%M}",
        alert.state,
        label(alert.sink, 40),
        label(alert.event, 20),
        label(alert.severity, 20),
        alert.tries,
        label(alert.title, 100),
        label(alert.reason, 200),
    )
