"""Objects of Kubernetes as JSON, such as events: as an exporter of events writes them, or as a watch has them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from functools import partial

from gpulake.formats.kubernetes import Listing, object_row
from gpulake.formats.messages import MESSAGES, Message
from gpulake.formats.messages.rows import RowMessages


def kubernetes_row(message: Message) -> Mapping[str, object]:
    found = json.loads(message.value)
    found = found["object"] if isinstance(found.get("object"), dict) else found
    at = datetime.fromtimestamp(message.at_ms / 1000, UTC).isoformat() if message.at_ms else ""
    # Exporters of events leave out what every one of them is.
    return object_row(found, Listing(kind="Event" if "involvedObject" in found else "", taken_at=at))


MESSAGES.register("kubernetes")(
    partial(RowMessages, "bronze_kubernetes_objects", kubernetes_row, without=("file", "folder", "file_at"))
)
