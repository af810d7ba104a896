"""The text format of Prometheus (0.0.4) and OpenMetrics: how a page is written, and how its samples are read."""

from __future__ import annotations

import json
import re
from typing import NamedTuple

Labels = tuple[tuple[str, str], ...]

TEXT = "text/plain; version=0.0.4; charset=utf-8"
NOT_IN_NAMES = re.compile(r"[^a-zA-Z0-9_]")
SURROGATE = re.compile("[\ud800-\udfff]")  # stands for bytes that were not UTF-8

_NAME = r"[a-zA-Z_:][a-zA-Z0-9_:]*"
# Possessive: nothing in a string can be matched in two ways, so that no character of a line is remembered.
_STRING = r'"(?:[^"\\]++|\\.)*+"'
# A name, labels, a value, a time and, behind a hash, an exemplar.
_LABELS = rf"\{{((?:[^\"}}]++|{_STRING})*+)\}}"
_SAMPLE = re.compile(rf"({_NAME})(?:\s*{_LABELS}\s*|\s+)(\S+)(?:\s+([^\s#]\S*))?\s*(?:#.*)?")
# As `promtool tsdb dump` writes it: the name is a label.
_DUMPED = re.compile(rf"(){_LABELS} (\S+) (-?[0-9]+)")
_LABEL = re.compile(rf"\s*([a-zA-Z_][a-zA-Z0-9_]*)\s*=\s*({_STRING})\s*(?:,|$)")
_BLANK = re.compile(r"\s*")
_ESCAPE = re.compile(r"\\(.)")
_ESCAPES = {"n": "\n", "\\": "\\", '"': '"'}
_SERIES = re.compile(rf"({_NAME})(?:\{{([^\\\n]*)\}})?")
_KEY = re.compile(r",?([a-zA-Z_][a-zA-Z0-9_]*)=")
MOST_SHAPES = 1_000


class Sample(NamedTuple):
    metric: str
    labels: dict[str, str]
    value: str
    time: str  # empty: the line has none


def read_sample(text: str) -> Sample | None:
    found = _SAMPLE.fullmatch(text) or _DUMPED.fullmatch(text)
    labels = _labels(found[2] or "") if found else None
    if found is None or labels is None:
        return None
    metric = found[1] or labels.pop("__name__", "")
    return Sample(metric, labels, found[3], found[4] or "") if metric else None


def is_timed(text: str) -> bool:
    """A sample with labels and a time of these decades, in seconds or milliseconds: a line of a dump."""
    sample = read_sample(text) if "{" in text else None
    try:
        at = float(sample.time) if sample else 0.0
        return sample is not None and (1e9 < at < 1e10 or 1e12 < at < 1e13) and float(sample.value) is not None
    except ValueError:
        return False


def _labels(text: str) -> dict[str, str] | None:
    labels: dict[str, str] = {}
    at = 0
    while not _BLANK.fullmatch(text, at):
        found = _LABEL.match(text, at)
        if found is None or found[1] in labels:
            return None
        labels[found[1]] = _ESCAPE.sub(lambda escape: _ESCAPES.get(escape[1], escape[0]), found[2][1:-1])
        at = found.end()
    return labels


def labels_json(labels: dict[str, str]) -> str:
    # A replacement character may be what the exporter wrote: escaped, it is not mistaken for bad UTF-8.
    return json.dumps(labels, ensure_ascii=False, sort_keys=True).replace("\ufffd", r"\ufffd")


class SeriesNames:
    """Names of series as exporters usually write them: `metric{label="value"}`, with nothing escaped."""

    def __init__(self) -> None:
        self._shapes: dict[tuple[str, ...], tuple[str, list[int]] | None] = {}

    def read(self, text: str) -> tuple[str, str] | None:
        """The metric, and its labels as JSON; None for a text that needs `read_sample`."""
        found = _SERIES.fullmatch(text)
        if found is None or not text.isprintable() or "\ufffd" in text:
            return None
        pieces = (found[2] or "").split('"')
        names, values = tuple(pieces[::2]), pieces[1::2]
        if names not in self._shapes:
            if len(self._shapes) > MOST_SHAPES:
                self._shapes.clear()
            self._shapes[names] = _shape(names) if len(pieces) % 2 else None
        shape = self._shapes[names]
        return (found[1], shape[0] % tuple([values[at] for at in shape[1]])) if shape else None


def _shape(pieces: tuple[str, ...]) -> tuple[str, list[int]] | None:
    """The JSON of labels of these names, and the order of their values in it."""
    *names, last = pieces
    found = [_KEY.fullmatch(name) for name in names]
    if last not in ("", ",") or not all(found) or (names and names[0].startswith(",")):
        return None
    if not all(name.startswith(",") for name in names[1:]):
        return None
    keys = [key[1] for key in found if key]
    order = sorted(range(len(keys)), key=keys.__getitem__)
    body = ", ".join(f'"{keys[at]}": "%s"' for at in order)
    return (f"{{{body}}}", order) if len(set(keys)) == len(keys) else None


def labels_text(labels: Labels) -> str:
    if not labels:
        return ""
    return "{" + ",".join(f'{NOT_IN_NAMES.sub("_", name)}="{escaped(value)}"' for name, value in labels) + "}"


def escaped(value: str) -> str:
    text = SURROGATE.sub("\ufffd", value)
    return text.replace("\\", r"\\").replace("\n", r"\n").replace('"', r"\"")


def help_text(words: str) -> str:
    return words.replace("\\", r"\\").replace("\n", r"\n")
