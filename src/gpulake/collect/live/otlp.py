"""Families as an OTLP request: ExportMetricsServiceRequest in its JSON form, where 64-bit integers are texts."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from gpulake import __version__
from gpulake.collect.identity import Identity
from gpulake.collect.live.exposition import SURROGATE
from gpulake.collect.live.metrics import Family, Point
from gpulake.collect.live.names import Labels
from gpulake.collect.live.state import Snapshot

CUMULATIVE = 2  # AGGREGATION_TEMPORALITY_CUMULATIVE
INTEGERS = frozenset({"process.pid", "cpu.logical_number"})  # attributes that the conventions call integers
MOST_INTEGER = 2**63 - 1


def encode(snapshot: Snapshot, families: Iterable[Family]) -> tuple[bytes, int]:
    """The request, and how many data points it has. Metrics are those of the last tick, and bear its time."""
    found = list(families)
    metrics = [_metric(family, snapshot.now_ms) for family in found]
    scope = {"name": "gpulake.collect", "version": __version__}
    resource = {"attributes": _attributes(_resource(snapshot.identity))}
    request = {"resourceMetrics": [{"resource": resource, "scopeMetrics": [{"scope": scope, "metrics": metrics}]}]}
    text = json.dumps(request, separators=(",", ":"), allow_nan=False, ensure_ascii=False)
    return text.encode(), sum(len(family.points) for family in found)


def rejected(answer: bytes) -> tuple[int, str]:
    """Data points that the receiver did not take although it took the request, and its reason."""
    try:
        content = json.loads(answer or b"{}")
        partial = content.get("partialSuccess") or {}
        return int(partial.get("rejectedDataPoints") or 0), str(partial.get("errorMessage") or "")
    except (ValueError, AttributeError, TypeError):
        return 0, ""  # it answered with something else; the status said that all went well


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


def _metric(family: Family, now_ms: int) -> dict[str, Any]:
    metric: dict[str, Any] = {"name": family.name, "description": family.help, "unit": family.unit}
    if family.kind == "gauge":
        return metric | {"gauge": {"dataPoints": [_point(point, now_ms) for point in family.points]}}
    points = [_point(point, now_ms) | {"startTimeUnixNano": _nano(point.start_ms)} for point in family.points]
    is_counter = family.kind == "counter"
    return metric | {"sum": {"dataPoints": points, "aggregationTemporality": CUMULATIVE, "isMonotonic": is_counter}}


def _point(point: Point, now_ms: int) -> dict[str, Any]:
    made: dict[str, Any] = {"attributes": _attributes(point.labels), "timeUnixNano": _nano(now_ms)}
    if isinstance(point.value, int) and abs(point.value) <= MOST_INTEGER:
        return made | {"asInt": str(point.value)}
    return made | {"asDouble": float(point.value)}


def _attributes(labels: Labels) -> list[dict[str, Any]]:
    return [{"key": name, "value": _value(name, value)} for name, value in labels if value]


def _value(name: str, value: str) -> dict[str, str]:
    return {"intValue": value} if name in INTEGERS else {"stringValue": SURROGATE.sub("\ufffd", value)}


def _nano(at_ms: int) -> str:
    return f"{at_ms}000000"
