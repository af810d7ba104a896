"""Answers of Prometheus' API: `{"status": "success", "data": {"resultType": "matrix", "result": [{"metric": …}]}}`.

A file is read a series at a time, so that its size does not matter.
"""

from __future__ import annotations

import codecs
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from gpulake.core.errors import InputError

READ_BYTES = 1 << 22
MOST_SERIES_CHARACTERS = 32 << 20
# VictoriaMetrics says `isPartial` before the data.
HEAD = re.compile(
    r'\s*\{\s*"status"\s*:\s*"success"\s*,(?:\s*"isPartial"\s*:\s*false\s*,)?\s*"data"\s*:\s*\{'
    r'\s*"resultType"\s*:\s*"(?:matrix|vector)"\s*,\s*"result"\s*:\s*\['
)
_BETWEEN = re.compile(r"[\s,]*")


class Series(NamedTuple):
    line_number: int
    metric: str
    labels: dict[str, str]
    values: list[Any]  # pairs of seconds and a number as text


def series_of(path: Path) -> Iterator[Series | tuple[int, str]]:
    """The series of an answer; of an element that is none, its line and its text."""
    decoder = json.JSONDecoder()
    with path.open("rb") as file:
        decode = codecs.getincrementaldecoder("utf-8-sig")("replace").decode
        text = decode(file.read(READ_BYTES))
        head = HEAD.match(text)
        if head is None:
            raise InputError("it is no answer of a Prometheus", "expected status, data, resultType and result")
        at, line = head.end(), 1 + text.count("\n", 0, head.end())
        while True:
            begin = _BETWEEN.match(text, at).end()  # type: ignore[union-attr]
            line += text.count("\n", at, begin)
            at = begin
            if text.startswith("]", at):
                return
            try:
                element, end = decoder.raw_decode(text, at)
            except (ValueError, RecursionError):
                more = decode(file.read(max(READ_BYTES, len(text) - at)))
                if not more or len(text) - at > MOST_SERIES_CHARACTERS:
                    raise InputError(f"it is cut short or damaged in line {line}", "fetch it again") from None
                text, at = text[at:] + more, 0
                continue
            yield _series(line, element) or (line, text[at:end])
            line += text.count("\n", at, end)
            at = end


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
