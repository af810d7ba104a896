"""A page of Prometheus metrics, as exporters show it: text exposition 0.0.4 and OpenMetrics.

Any sample that is a number lands, NaN and infinities too. Of the fields of DCGM it is known what they can be: what says
"blank" with a number that looks like data is quarantined.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

from gpulake.core.lines import byte_lines
from gpulake.core.tables import bronze_tables
from gpulake.core.types import BadRow, CsvLayout, TextRow
from gpulake.formats.plausible import is_plausible
from gpulake.land.readers import READERS, Sample

NAME = r"[a-zA-Z_:][a-zA-Z0-9_:]*"
# Nothing in them can be matched in two ways: possessive, they do not remember each character of a line.
TEXT = r'"(?:[^"\\]++|\\.)*+"'
# A name, labels, a value, a time and, behind a hash, an exemplar.
SAMPLE = re.compile(rf"({NAME})(?:\s*\{{((?:[^\"}}]++|{TEXT})*+)\}}\s*|\s+)(\S+)(?:\s+([^\s#]\S*))?\s*(?:#.*)?")
LABEL = re.compile(rf"\s*([a-zA-Z_][a-zA-Z0-9_]*)\s*=\s*({TEXT})\s*(?:,|$)")
BLANK = re.compile(r"\s*")
ESCAPE = re.compile(r"\\(.)")
ESCAPES = {"n": "\n", "\\": "\\", '"': '"'}
COMMENT = re.compile(r"# (HELP|TYPE|UNIT) ")
NUMBER = re.compile(r"[+-]?(\d++\.?\d*+|\.\d++)([eE][+-]?\d++)?|[+-]?(nan|inf|infinity)", re.IGNORECASE | re.ASCII)
COLUMNS = ("metric", "labels", "value", "ts_ms")
EOF = b"# EOF"
# By the field's name: our name for its unit, and how much of that one of its own is.
DCGM_UNITS = {
    "UTIL": ("_ratio", 0.01),
    "ACTIVE": ("_ratio", 1.0),
    "OCCUPANCY": ("_ratio", 1.0),
    "TEMP": ("_celsius", 1.0),
    "POWER_USAGE": ("_watts", 1.0),
    "POWER_USAGE_INSTANT": ("_watts", 1.0),
    "POWER_MGMT_LIMIT": ("_watts", 1.0),
    "TOTAL_ENERGY_CONSUMPTION": ("_joules_total", 0.001),
    "CLOCK": ("_hertz", 1e6),
    "FB_USED": ("_bytes", 1 << 20),
    "FB_FREE": ("_bytes", 1 << 20),
    "FB_TOTAL": ("_bytes", 1 << 20),
    "FB_RESERVED": ("_bytes", 1 << 20),
}


@READERS.register("prometheus")
class PrometheusReader:
    def recognise(self, sample: Sample) -> CsvLayout | None:
        is_page = any(COMMENT.match(line) for line in sample.lines)
        if not is_page and sample.name.endswith(".prom"):
            is_page = any(SAMPLE.fullmatch(line) for line in sample.lines)
        if not is_page:
            return None
        table = bronze_tables()["bronze_prometheus_samples"]
        return CsvLayout(table, COLUMNS, has_header=False, constants=sample.file_constants(), rewrite=_samples)


def _samples(path: Path) -> Iterator[TextRow | BadRow]:
    is_open_metrics = _is_open_metrics(path)
    for number, line in byte_lines(path):
        if isinstance(line, BadRow):
            yield line
            continue
        text = line.decode("utf-8", "replace").strip()
        if not text or text.startswith("#"):
            continue
        if "\ufffd" in text and not _is_utf8(line):
            yield BadRow(number, "not UTF-8", text)
            continue
        found = SAMPLE.fullmatch(text)
        labels = _labels(found[2] or "") if found else None
        if found is None or labels is None:
            yield BadRow(number, "not a sample: a name, labels in braces and a value are expected", text)
            continue
        metric, _, value, time = found.groups()
        if reason := _fault(metric, value):
            yield BadRow(number, reason, text)
            continue
        moment = _milliseconds(time, is_open_metrics) if time else ""
        yield TextRow(number, (metric, labels, value.removeprefix("+").lower(), moment), text)


def _is_utf8(line: bytes) -> bool:
    try:
        line.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True


def _labels(text: str) -> str | None:
    """The labels as JSON, or nothing where they are none."""
    labels: dict[str, str] = {}
    at = 0
    while not BLANK.fullmatch(text, at):
        found = LABEL.match(text, at)
        if found is None or found[1] in labels:
            return None
        labels[found[1]] = ESCAPE.sub(_unescape, found[2][1:-1])
        at = found.end()
    # That a character is missing may be what the exporter says: written so, it is not taken for ours.
    return json.dumps(labels, ensure_ascii=False, sort_keys=True).replace("\ufffd", r"\ufffd")


def _unescape(found: re.Match[str]) -> str:
    return ESCAPES.get(found[1], found[0])


def _fault(metric: str, value: str) -> str:
    if not NUMBER.fullmatch(value):
        return f"value is {value!r}, which is not a number"
    if not metric.startswith("DCGM_FI_"):
        return ""
    unit, scale = next((known for end, known in DCGM_UNITS.items() if metric.endswith(f"_{end}")), ("", 1.0))
    is_whole = value.lstrip("+-").isdigit()
    # A blank is one before it is scaled.
    sound = is_plausible("", float(value)) and (not is_whole or is_plausible("", int(value)))
    if sound and is_plausible(unit, float(value) * scale):
        return ""
    return f"{metric} is {value}, which cannot be"


def _milliseconds(time: str, is_open_metrics: bool) -> str:
    """OpenMetrics counts seconds; what is no number is left for the check of the column."""
    if not NUMBER.fullmatch(time):
        return time
    return repr(float(time) * 1000) if is_open_metrics else time


def _is_open_metrics(path: Path) -> bool:
    with path.open("rb") as file:
        file.seek(max(path.stat().st_size - 64, 0))
        return file.read().rstrip().endswith(EOF)
