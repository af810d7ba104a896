"""Answers of Prometheus' API: `{"status": "success", "data": {"resultType": "matrix", "result": [{"metric": …}]}}`.

A file is read a series at a time, so that its size does not matter.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from gpulake.formats.json_items import elements_behind

# VictoriaMetrics says `isPartial` before the data.
HEAD = re.compile(
    r'\s*\{\s*"status"\s*:\s*"success"\s*,(?:\s*"isPartial"\s*:\s*false\s*,)?\s*"data"\s*:\s*\{'
    r'\s*"resultType"\s*:\s*"(?:matrix|vector)"\s*,\s*"result"\s*:\s*\['
)


class Series(NamedTuple):
    line_number: int
    metric: str
    labels: dict[str, str]
    values: list[Any]  # pairs of seconds and a number as text


def series_of(path: Path) -> Iterator[Series | tuple[int, str]]:
    """The series of an answer; of an element that is none, its line and its text."""
    for part in elements_behind(path, HEAD, "series"):
        yield _series(part.line_number, part.value) or (part.line_number, part.text)


def _series(line: int, element: Any) -> Series | None:
    if not isinstance(element, dict) or not isinstance(element.get("metric"), dict):
        return None
    labels = dict(element["metric"])
    metric = labels.pop("__name__", "")
    values = element.get("values", [element["value"]] if "value" in element else None)
    if not metric or not isinstance(values, list) or not all(isinstance(one, str) for one in labels.values()):
        return None
    return Series(line, metric, labels, values)


def sample_text(series: Series, pair: Any) -> str:
    """One sample as the API writes it."""
    element = {"metric": {"__name__": series.metric, **series.labels}, "values": [pair]}
    return json.dumps(element, ensure_ascii=False, separators=(",", ":"))
