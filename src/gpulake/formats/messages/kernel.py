"""Lines of kernels' logs, as Fluent Bit, Vector or rsyslog send them: text, or JSON with the line and its host.

Only lines that report an event (formats/kernel.toml) are rows; a log is for those who keep logs.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import partial
from typing import Any

from gpulake.formats.kernel import event_in, read_line
from gpulake.formats.messages import MESSAGES, Message
from gpulake.formats.messages.rows import RowMessages
from gpulake.formats.sample_rows import milliseconds

LINES = ("message", "MESSAGE", "msg", "log", "line")
HOSTS = ("host", "hostname", "_HOSTNAME", "Hostname", "node", "node_name")
TIMES = ("timestamp", "@timestamp", "time", "date", "ts_ms")


def event_row(message: Message) -> Mapping[str, Any]:
    """The event of a line; empty, if it reports none."""
    text = message.value.decode().strip()
    said: Mapping[str, Any] = {}
    if text.startswith("{"):
        said = json.loads(text)
        text = next((str(said[name]) for name in LINES if name in said), "")
        if not text:
            raise ValueError(f"no member is called {', '.join(LINES)}")
    line = read_line(text)
    event = event_in(line.message)
    if event is None:
        return {}
    node = next((str(said[name]) for name in HOSTS if said.get(name)), "") or message.key.decode()
    if not node:
        raise ValueError(f"no host: neither a key, nor a member called {', '.join(HOSTS)}")
    at = next((said[name] for name in TIMES if name in said), None)
    at_ms = round(line.at.timestamp() * 1000) if line.at else message.at_ms if at is None else milliseconds(at)
    return {
        "ts_ms": at_ms,
        "node": node,
        "kind": event.kind,
        "subject": event.subject,
        "code": event.code,
        "pid": event.pid,
        "message": line.message,
        "source": "kernel",
    }


MESSAGES.register("kernel")(partial(RowMessages, "bronze_node_events", event_row))
