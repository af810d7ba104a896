"""Metrics of OpenTelemetry (OTLP), as JSON or as protocol buffers: what an exporter or a Collector sends.

Names are written as OpenTelemetry's own exporter for Prometheus writes them: with the unit, and `_total` for counters.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator, Mapping
from typing import Any

from gpulake.formats.messages import MESSAGES, Message
from gpulake.formats.messages.json import known_metrics
from gpulake.formats.messages.samples import SampleMessages, label_text, with_node
from gpulake.formats.prometheus import NOT_IN_NAMES, labels_json
from gpulake.formats.protobuf import as_bytes, fields

UNITS = {
    "By": "bytes",
    "s": "seconds",
    "ms": "milliseconds",
    "W": "watts",
    "J": "joules",
    "Cel": "celsius",
    "Hz": "hertz",
    "1": "ratio",
    "%": "percent",
    "By/s": "bytes_per_second",
    "V": "volts",
    "A": "amperes",
}
KINDS = ("gauge", "sum", "histogram", "exponentialHistogram", "summary")
# Fields of the messages, by number: name in JSON, and what it is. Those that are not here are not read.
_NUMBERS: dict[str, dict[int, tuple[str, str]]] = {
    "request": {1: ("resourceMetrics", "[resource_metrics")},
    "resource_metrics": {1: ("resource", "attributed"), 2: ("scopeMetrics", "[scope_metrics")},
    "attributed": {1: ("attributes", "[attribute")},
    "scope_metrics": {2: ("metrics", "[metric")},
    "metric": {
        1: ("name", "text"),
        3: ("unit", "text"),
        5: ("gauge", "data"),
        7: ("sum", "data"),
        9: ("histogram", "wide_data"),
        10: ("exponentialHistogram", "wide_data"),
        11: ("summary", "summary_data"),
    },
    "data": {1: ("dataPoints", "[number_point"), 3: ("isMonotonic", "flag")},
    "wide_data": {1: ("dataPoints", "[wide_point")},
    "summary_data": {1: ("dataPoints", "[summary_point")},
    "number_point": {
        7: ("attributes", "[attribute"),
        3: ("timeUnixNano", "fixed"),
        4: ("asDouble", "double"),
        6: ("asInt", "signed"),
        8: ("flags", "number"),
    },
    "wide_point": {
        9: ("attributes", "[attribute"),
        1: ("attributes", "[attribute"),
        3: ("timeUnixNano", "fixed"),
        4: ("count", "fixed"),
        5: ("sum", "double"),
    },
    "summary_point": {
        7: ("attributes", "[attribute"),
        3: ("timeUnixNano", "fixed"),
        4: ("count", "fixed"),
        5: ("sum", "double"),
    },
    "attribute": {1: ("key", "text"), 2: ("value", "any")},
    "any": {
        1: ("stringValue", "text"),
        2: ("boolValue", "flag"),
        3: ("intValue", "number"),
        4: ("doubleValue", "double"),
    },
}
_FIXED = {"fixed": struct.Struct("<Q"), "signed": struct.Struct("<q"), "double": struct.Struct("<d")}


def decoded(message: bytes, kind: str = "request") -> dict[str, Any]:
    """Protocol buffers as the same message has them in JSON."""
    found: dict[str, Any] = {}
    for number, _, value in fields(message):
        name, inner = _NUMBERS[kind].get(number, ("", ""))
        if not name:
            continue
        one: Any
        if inner in _FIXED:
            (one,) = _FIXED[inner].unpack(as_bytes(value))
        elif inner in ("flag", "number"):
            one = bool(value) if inner == "flag" else value
        elif inner == "text":
            one = as_bytes(value).decode()
        else:
            one = decoded(as_bytes(value), inner.removeprefix("["))
        if inner.startswith("["):
            found.setdefault(name, []).append(one)
        else:
            found[name] = one
    return found


@MESSAGES.register("otlp")
class Otlp(SampleMessages):
    def read(self, place: int, message: Message) -> None:
        is_json = message.value.lstrip()[:1] == b"{"
        request = json.loads(message.value) if is_json else decoded(message.value)
        if not isinstance(request.get("resourceMetrics"), list):
            raise ValueError("no resourceMetrics in it")
        for resource in request["resourceMetrics"]:
            common = _attributes(resource.get("resource", {}))
            for scope in resource.get("scopeMetrics", ()):
                for metric in scope.get("metrics", ()):
                    self._metric(place, message, metric, common)

    def _metric(self, place: int, message: Message, metric: Mapping[str, Any], common: dict[str, str]) -> None:
        kind = next((kind for kind in KINDS if kind in metric), "")
        if not kind:
            raise ValueError(f"metric {metric.get('name')!r} has no data")
        is_counter = kind == "sum" and bool(metric[kind].get("isMonotonic"))
        name = metric_name(metric["name"], metric.get("unit", ""), is_counter, kind == "gauge")
        for point in metric[kind].get("dataPoints", ()):
            if int(point.get("flags", 0)) & 1:
                continue  # it says that there is no value
            labels = labels_json(with_node({**common, **_attributes(point)}, message))
            at_ms = int(point.get("timeUnixNano", 0)) // 1_000_000 or message.at_ms
            for ending, value in _values(point, kind):
                self.found.add(self.found.number(name + ending, labels), value, at_ms, place)


def metric_name(name: str, unit: str, is_counter: bool, is_gauge: bool) -> str:
    plain = NOT_IN_NAMES.sub("_", name)
    if plain in known_metrics():
        return plain
    word = UNITS.get(unit, "")
    if word and not plain.endswith(f"_{word}") and (word != "ratio" or is_gauge):
        plain = f"{plain}_{word}"
    return f"{plain}_total" if is_counter and not plain.endswith("_total") else plain


def _values(point: Mapping[str, Any], kind: str) -> Iterator[tuple[str, float]]:
    if kind in ("gauge", "sum"):
        yield "", float(point["asDouble"] if "asDouble" in point else point["asInt"])
        return
    yield "_count", float(point.get("count", 0))
    if "sum" in point:
        yield "_sum", float(point["sum"])


def _attributes(holder: Mapping[str, Any]) -> dict[str, str]:
    found = {}
    for pair in holder.get("attributes", ()):
        value = pair.get("value") or {}
        simple = next(
            (value[kind] for kind in ("stringValue", "intValue", "doubleValue", "boolValue") if kind in value), None
        )
        if simple is not None:
            found[NOT_IN_NAMES.sub("_", pair["key"])] = label_text(simple)
    return found
