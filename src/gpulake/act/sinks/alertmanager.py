"""Alertmanager, by version 2 of its API. It deduplicates by labels."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from gpulake.act.alerts.alert import Alert
from gpulake.act.alerts.posting import encoded, post
from gpulake.act.sinks import SINKS, Setup
from gpulake.core.kinds import SEVERITIES
from gpulake.core.words import label

PATH = "/api/v2/alerts"
MOST_LABEL = 200
# Alertmanager does not notify of an alert that has ended: one that was over when it was found fires for so long.
OVER_FOR = timedelta(hours=1)


@SINKS.register("alertmanager")
class Alertmanager:
    deduplicates = True

    def __init__(self, setup: Setup) -> None:
        self._setup = setup

    def send(self, alert: Alert) -> None:
        url = self._setup.address().rstrip("/")
        address = url if url.endswith(PATH) else url + PATH
        post(self._setup, address, encoded(self._documents(alert)), {})

    def _documents(self, alert: Alert) -> list[dict[str, Any]]:
        """Severity is a label that Alertmanager routes by. The alert of the previous severity is ended."""
        at = alert.happened_at or alert.changed_at
        starts = min(alert.began_at or at, at)
        firing_until = at + (OVER_FOR if alert.is_over else timedelta(days=self._setup.settings.firing_days))
        ends = at if alert.event == "resolved" else firing_until
        documents = [_document(alert, alert.severity, starts, ends)]
        if alert.event in ("worsened", "resolved"):
            others = [severity for severity in SEVERITIES if severity != alert.severity]
            documents += [_document(alert, severity, starts, at) for severity in others]
        return documents


def _document(alert: Alert, severity: str, starts: datetime, ends: datetime) -> dict[str, Any]:
    named = {
        "alertname": f"gpulake_{alert.kind or alert.event}",
        "source": "gpulake",
        "severity": severity,
        "incident_id": alert.incident_id or alert.alert_id,
        "cluster": alert.cluster_id,
        "node": alert.node,
        "job_id": alert.job_id,
    }
    return {
        "labels": {name: label(value, MOST_LABEL) for name, value in named.items() if value},
        "annotations": {"summary": alert.title, "description": alert.body},
        "startsAt": _text(starts),
        "endsAt": _text(max(ends, starts)),
        **({"generatorURL": alert.link} if alert.link else {}),
    }


def _text(at: datetime) -> str:
    return at.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
