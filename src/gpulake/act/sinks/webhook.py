"""A webhook: JSON over HTTP, with an idempotency key, signed where a secret is set."""

from __future__ import annotations

import hashlib
import hmac
from datetime import datetime
from typing import Any

from gpulake.act.alerts.alert import Alert
from gpulake.act.alerts.posting import encoded, post
from gpulake.act.sinks import SINKS, Setup

VERSION = 1


@SINKS.register("webhook")
class Webhook:
    deduplicates = True

    def __init__(self, setup: Setup) -> None:
        self._setup = setup

    def send(self, alert: Alert) -> None:
        body = encoded(document(alert))
        headers = {"Idempotency-Key": alert.alert_id}
        variable = self._setup.settings.secret_variable
        if variable:
            at = int(self._setup.clock.now().timestamp())
            headers["X-Gpulake-Signature"] = f"t={at},v1={signature(self._setup.secret(variable), at, body)}"
        post(self._setup, self._setup.address(), body, headers)


def document(alert: Alert) -> dict[str, Any]:
    return {
        "version": VERSION,
        "id": alert.alert_id,
        "event": alert.event,
        "severity": alert.severity,
        "title": alert.title,
        "body": alert.body,
        "happened_at": _text(alert.happened_at),
        "incident": {
            "id": alert.incident_id,
            "kind": alert.kind,
            "cluster_id": alert.cluster_id,
            "node": alert.node,
            "job_id": alert.job_id,
            "subject": alert.subject,
            "opened_at": _text(alert.began_at),
            "is_over": alert.is_over or alert.event == "resolved",
        },
    }


def signature(secret: str, at: int, body: bytes) -> str:
    """Includes the time, against replays."""
    return hmac.new(secret.encode(), f"{at}.".encode() + body, hashlib.sha256).hexdigest()


def _text(at: datetime | None) -> str | None:
    return at.isoformat() if at is not None else None
