"""Families as text (Prometheus' format 0.0.4, or OpenMetrics 1.0 if the client prefers it) and as an OTLP request.

An ExportMetricsServiceRequest is in JSON, where 64-bit integers are strings.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from gpulake import __version__
from gpulake.collect.identity import Identity
from gpulake.collect.live.metrics import Family, Point
from gpulake.collect.live.state import Snapshot
from gpulake.formats.prometheus import NOT_IN_NAMES, SURROGATE, Labels, help_text, labels_text

OPENMETRICS = "application/openmetrics-text; version=1.0.0; charset=utf-8"

SUFFIXES = {"By": "bytes", "s": "seconds", "W": "watts", "J": "joules", "Cel": "celsius", "Hz": "hertz"}


def exposition(families: Iterable[Family], *, is_openmetrics: bool = False) -> str:
    lines: list[str] = []
    rendered: dict[Labels, str] = {}  # most families share their labels
    for family in families:
        name = prometheus_name(family)
        lines += _head(name, family, is_openmetrics=is_openmetrics)
        for point in family.points:
            text = rendered.get(point.labels)
            if text is None:
                text = rendered[point.labels] = labels_text(point.labels)
            lines.append(f"{name}{text} {point.value!r}")
    if is_openmetrics:
        lines.append("# EOF")
    return "\n".join(lines) + "\n"


def prometheus_name(family: Family) -> str:
    """A dotted name is translated as OpenTelemetry does; others stay unchanged."""
    if "." not in family.name:
        return family.name
    words = NOT_IN_NAMES.sub("_", family.name).split("_")
    suffix = "ratio" if family.unit == "1" and family.kind == "gauge" else SUFFIXES.get(family.unit, "")
    if suffix and suffix not in words:
        words.append(suffix)
    if family.kind == "counter" and words[-1] != "total":
        words.append("total")
    return "_".join(words)


def negotiate(accept: str) -> bool:
    """Whether the client prefers OpenMetrics."""
    wanted = {"openmetrics": 0.0, "text": 0.0}
    for part in accept.split(","):
        media, *parameters = (piece.strip().lower() for piece in part.split(";"))
        quality = next((_quality(piece[2:]) for piece in parameters if piece.startswith("q=")), 1.0)
        version = next((piece[8:].strip('"') for piece in parameters if piece.startswith("version=")), "")
        if media == "application/openmetrics-text" and version in ("", "1.0.0"):
            wanted["openmetrics"] = max(quality, wanted["openmetrics"])
        elif media in ("text/plain", "text/*", "*/*"):
            wanted["text"] = max(quality, wanted["text"])
    return wanted["openmetrics"] > 0 and wanted["openmetrics"] >= wanted["text"]


def _quality(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return 0.0


def _head(name: str, family: Family, *, is_openmetrics: bool) -> tuple[str, str]:
    kind = "counter" if family.kind == "counter" else "gauge"
    text = help_text(family.help)
    if is_openmetrics:
        text = text.replace('"', r"\"")
        if kind == "counter":
            # DCGM's counters do not end in _total, and keep their names: OpenMetrics then calls their type unknown.
            kind, name = ("counter", name.removesuffix("_total")) if name.endswith("_total") else ("unknown", name)
    return f"# HELP {name} {text}", f"# TYPE {name} {kind}"


CUMULATIVE = 2  # AGGREGATION_TEMPORALITY_CUMULATIVE
INTEGERS = frozenset({"process.pid", "cpu.logical_number"})  # integer attributes by convention
MOST_INTEGER = 2**63 - 1


def encode(snapshot: Snapshot, families: Iterable[Family]) -> tuple[bytes, int]:
    """The request and its number of data points. Metrics have the time of the last tick.

    It is assembled as text: thousands of points share few attributes, which are encoded once.
    """
    found = list(families)
    attributes = _Attributes()
    metrics = ",".join(_metric(family, snapshot.now_ms, attributes) for family in found)
    scope = _json({"name": "gpulake.collect", "version": __version__})
    resource = attributes.text(_resource(snapshot.identity))
    text = (
        f'{{"resourceMetrics":[{{"resource":{{"attributes":{resource}}},'
        f'"scopeMetrics":[{{"scope":{scope},"metrics":[{metrics}]}}]}}]}}'
    )
    return text.encode(), sum(len(family.points) for family in found)


def rejected(answer: bytes) -> tuple[int, str]:
    """Data points that the receiver rejected although it accepted the request, and the reason."""
    try:
        content = json.loads(answer or b"{}")
        partial = content.get("partialSuccess") or {}
        return int(partial.get("rejectedDataPoints") or 0), str(partial.get("errorMessage") or "")
    except (ValueError, AttributeError, TypeError):
        return 0, ""  # not the expected answer, but the status was a success


def _resource(identity: Identity) -> Labels:
    return (
        ("service.name", "gpulake"),
        ("service.version", __version__),
        ("host.name", identity.host_name),
        ("host.id", identity.host_id),
        ("gpulake.run_id", identity.run_id),
        ("gpulake.node_id", identity.node_id),
        ("gpulake.stage", identity.stage),
    )


class _Attributes:
    """Attributes as JSON, each list and each pair encoded once."""

    def __init__(self) -> None:
        self._lists: dict[Labels, str] = {}
        self._pairs: dict[tuple[str, str], str] = {}

    def text(self, labels: Labels) -> str:
        found = self._lists.get(labels)
        if found is None:
            pairs = [self._pairs.get(label) or self._pair(label) for label in labels if label[1]]
            found = self._lists[labels] = f"[{','.join(pairs)}]"
        return found

    def _pair(self, label: tuple[str, str]) -> str:
        name, value = label
        typed = {"intValue": value} if name in INTEGERS else {"stringValue": SURROGATE.sub("\ufffd", value)}
        made = self._pairs[label] = _json({"key": name, "value": typed})
        return made


def _metric(family: Family, now_ms: int, attributes: _Attributes) -> str:
    head = _json({"name": family.name, "description": family.help, "unit": family.unit})[:-1]
    if family.kind == "gauge":
        points = ",".join(_point(point, "", now_ms, attributes) for point in family.points)
        return f'{head},"gauge":{{"dataPoints":[{points}]}}}}'
    points = ",".join(
        _point(point, f'"startTimeUnixNano":"{point.start_ms}000000",', now_ms, attributes) for point in family.points
    )
    is_counter = "true" if family.kind == "counter" else "false"
    rest = f'"aggregationTemporality":{CUMULATIVE},"isMonotonic":{is_counter}'
    return f'{head},"sum":{{"dataPoints":[{points}],{rest}}}}}'


def _point(point: Point, start: str, now_ms: int, attributes: _Attributes) -> str:
    value = point.value
    if isinstance(value, int) and abs(value) <= MOST_INTEGER:
        typed = f'"asInt":"{value}"'
    else:
        typed = f'"asDouble":{float(value)!r}'
    return f'{{"attributes":{attributes.text(point.labels)},{start}"timeUnixNano":"{now_ms}000000",{typed}}}'


def _json(content: Mapping[str, Any]) -> str:
    return json.dumps(content, separators=(",", ":"), ensure_ascii=False)
