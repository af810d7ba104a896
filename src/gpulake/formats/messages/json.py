"""Samples as JSON, one or many in a message: an object, a list of objects, or a line for each.

Three shapes are known: one value (`{"name", "labels", "value", "timestamp"}`, as prometheus-kafka-adapter writes it);
the fields of Telegraf (`{"name", "fields", "tags", "timestamp"}`); and a row whose members are called as an exporter
calls its metrics: what else such a row has are labels.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any, NamedTuple

from gpulake.formats.messages import MESSAGES, Message
from gpulake.formats.messages.samples import SampleMessages, label_text, with_node
from gpulake.formats.names import EXPORTERS, STYLES, WRITERS, table, written
from gpulake.formats.prometheus import NOT_IN_NAMES, labels_json
from gpulake.formats.sample_rows import milliseconds

TIMES = ("timestamp", "ts_ms", "time", "ts", "@timestamp")
NAMES = ("name", "metric", "__name__")
LABELS = ("labels", "tags", "attributes")
NUMBERS = {int, float}


@cache
def known_metrics() -> Mapping[str, str]:
    """What a member of a row may be called to be a sample, and the metric that it is then."""
    names = {name.name: name.name for style in STYLES for fields in table(style).subjects.values() for name in fields}
    read = {name: name for source in (*EXPORTERS, *WRITERS) for one in written(source).values() for name in one.names}
    dotted = {name: metric for metric in read for name in (metric.replace("_", "."),)}
    return {**{name: NOT_IN_NAMES.sub("_", name) for name in names}, **dotted, **read}


class _Shape(NamedTuple):
    """Rows with the same members, in the same order."""

    labels: tuple[int, ...]  # places of members
    metrics: tuple[int, ...]
    names: tuple[str, ...]  # of the metrics
    time: int | None


@MESSAGES.register("json")
class JsonSamples(SampleMessages):
    def __init__(self) -> None:
        super().__init__()
        self._known: dict[tuple[Any, ...], list[int]] = {}  # series, by what their labels are in a message
        self._shapes: dict[tuple[str, ...], _Shape] = {}

    def forget(self) -> None:
        super().forget()
        self._known, self._shapes = {}, {}

    def read(self, place: int, message: Message) -> None:
        for row in _objects(message.value):
            if "value" in row:
                self._one(place, message, row)
            elif isinstance(row.get("fields"), dict):
                self._telegraf(place, message, row)
            else:
                self._wide(place, message, row)

    def _one(self, place: int, message: Message, row: dict[str, Any]) -> None:
        labels: dict[str, Any] = next((row[name] for name in LABELS if isinstance(row.get(name), dict)), {})
        name = next((row[name] for name in NAMES if isinstance(row.get(name), str)), "") or labels.get("__name__")
        if not name:
            raise ValueError("no name of a metric")
        self.found.add(self._number(name, labels, message), float(row["value"]), _time(row, message), place)

    def _telegraf(self, place: int, message: Message, row: dict[str, Any]) -> None:
        tags, at_ms = row.get("tags") or {}, _time(row, message)
        for field, value in row["fields"].items():
            if isinstance(value, int | float):
                name = field if field in known_metrics() else f"{row['name']}_{field}"
                self.found.add(self._number(name, tags, message), float(value), at_ms, place)

    def _number(self, name: str, labels: Mapping[str, Any], message: Message) -> int:
        key = (name, message.key, *labels.items())
        if key not in self._known:
            self._known[key] = [self.found.number(_metric(name), _labels(labels, message))]
        return self._known[key][0]

    def _wide(self, place: int, message: Message, row: dict[str, Any]) -> None:
        members = tuple(row)
        shape = self._shapes.get(members)
        if shape is None:
            shape = self._shapes[members] = _shape(members)
        values = list(row.values())
        at_ms = _milliseconds(None if shape.time is None else values[shape.time], message)
        said = [values[at] for at in shape.labels]
        numbers = self._series(shape, members, said, message)
        measured = [values[at] for at in shape.metrics]
        if not NUMBERS.issuperset(map(type, measured)):
            pairs = [(n, float(value)) for n, value in zip(numbers, measured, strict=True) if value is not None]
            numbers, measured = [n for n, _ in pairs], [value for _, value in pairs]
        if not numbers:
            raise ValueError("no member is called as a metric that is known: docs/kafka.md")
        self.found.extend(numbers, measured, at_ms, place)

    def _series(self, shape: _Shape, members: tuple[str, ...], said: list[Any], message: Message) -> list[int]:
        nested = any(isinstance(value, dict) for value in said)
        key = (shape.labels, shape.names, message.key, *(map(str, said) if nested else said))
        numbers = self._known.get(key)
        if numbers is None:
            labels: dict[str, Any] = {}
            for at, value in zip(shape.labels, said, strict=True):
                labels |= value if members[at] in LABELS and isinstance(value, dict) else {members[at]: value}
            text = _labels(labels, message)
            numbers = self._known[key] = [self.found.number(known_metrics()[name], text) for name in shape.names]
        return numbers


def _shape(members: tuple[str, ...]) -> _Shape:
    metrics = [at for at, name in enumerate(members) if name in known_metrics()]
    time = next((members.index(name) for name in TIMES if name in members), None)
    labels = [at for at, name in enumerate(members) if at not in metrics and name not in TIMES]
    return _Shape(tuple(labels), tuple(metrics), tuple(members[at] for at in metrics), time)


def _time(row: dict[str, Any], message: Message) -> int:
    return _milliseconds(next((row[name] for name in TIMES if name in row), None), message)


def _milliseconds(at: object, message: Message) -> int:
    """Zero is no time: it is what a member is that nobody has set."""
    return milliseconds(at) if at else message.at_ms


def _labels(labels: Mapping[str, Any], message: Message) -> str:
    texts = {_name(word): label_text(value) for word, value in labels.items() if word != "__name__"}
    return labels_json(with_node(texts, message))


def _objects(value: bytes) -> Iterator[dict[str, Any]]:
    try:
        found = json.loads(value)
    except ValueError:
        lines = [line for line in value.splitlines() if line.strip()]
        if len(lines) < 2:
            raise
        found = [json.loads(line) for line in lines]
    for row in found if isinstance(found, list) else [found]:
        if not isinstance(row, dict):
            raise ValueError("not an object")
        yield row


def _metric(name: str) -> str:
    return known_metrics().get(name) or NOT_IN_NAMES.sub("_", name)


def _name(word: str) -> str:
    return NOT_IN_NAMES.sub("_", word)
