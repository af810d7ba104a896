"""Samples of Prometheus: a page of an exporter (text exposition 0.0.4, OpenMetrics), an answer of query_range, or what
`promtool tsdb dump` and `promtool tsdb dump-openmetrics` print.

Any sample that is a number lands, NaN and infinities too. Of the fields of DCGM it is known what they can be: what says
"blank" with a number that looks like data is quarantined.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa

from gpulake.core.lines import line_blocks
from gpulake.core.tables import bronze_tables
from gpulake.core.types import BadRow, CsvLayout, Rewrite, RowBlock, TextRow
from gpulake.formats.plausible import BLANK_INTEGERS, BLANK_NUMBER
from gpulake.formats.prometheus import SeriesNames, is_timed, labels_json, read_sample
from gpulake.formats.query_range import HEAD
from gpulake.formats.samples import COLUMNS, NUMBER, answer_rows, sample_fault, usual_span
from gpulake.land.readers import READERS, Sample

COMMENT = re.compile(r"# (HELP|TYPE|UNIT) ")
EOF = b"# EOF"
USUAL_VALUE = re.compile(r"-?[0-9]{1,15}(?:\.[0-9]{1,20})?(?:e[+-]?[0-9]{1,2})?").fullmatch
USUAL_TIME = re.compile(r"1?[0-9]{1,12}(?:\.[0-9]{1,9})?").fullmatch
SPLIT = re.compile(r"([^ {]+(?:\{.*\})?|\{.*\}) ([^ ]+)(?: ([^ ]+))?")
MOST_SERIES = 20_000
LATEST_OPEN_METRICS = 2e9  # seconds; a later time is checked by itself


@READERS.register("prometheus")
class PrometheusReader:
    def recognise(self, sample: Sample) -> CsvLayout | None:
        if HEAD.match("\n".join(sample.lines)):
            return _layout(sample, answer_rows)
        is_page = any(COMMENT.match(line) for line in sample.lines)
        if not is_page and sample.name.endswith(".prom"):
            is_page = any(read_sample(line) for line in sample.lines)
        is_page = is_page or all(is_timed(line) for line in sample.lines[:2] if line != EOF.decode())
        if not is_page:
            return None
        return _layout(sample, _samples)


def _layout(sample: Sample, rewrite: Rewrite) -> CsvLayout:
    table = bronze_tables()["bronze_prometheus_samples"]
    return CsvLayout(table, COLUMNS, has_header=False, constants=sample.file_constants(), rewrite=rewrite)


def _samples(path: Path) -> Iterator[TextRow | BadRow | RowBlock]:
    """Usual lines are read a block at a time; every other line is parsed by itself."""
    is_open_metrics = _is_open_metrics(path)
    usual = _UsualLines(is_open_metrics)
    for first, block in line_blocks(path):
        if isinstance(block, BadRow):
            yield block
            continue
        rows, others = usual.read(block)
        if rows:
            yield usual.columns(rows)
        lines = block.removesuffix(b"\n").split(b"\n") if others else []
        for at in others:
            if sample := _sample(first + at, lines[at], is_open_metrics):
                yield sample


Row = tuple[int, str, str]  # number of the series, value, time


class _UsualLines:
    """Reads `series value` and `series value time`, with one blank between; a series is parsed when it first comes."""

    def __init__(self, is_open_metrics: bool) -> None:
        self._is_open_metrics = is_open_metrics
        self._names = SeriesNames()
        # By series: its number, how much of our unit one of its own is (0: anything can be), and the least and the
        # most that can be.
        self._series: dict[str, tuple[int, float, float, float]] = {}
        self._named: list[tuple[str, str]] = []  # metric and labels, by the number of the series
        self._arrays = (pa.array([], pa.string()),) * 2  # the same, as far as rows have needed them
        self._time = ("", "")  # the last one as it is written, and in milliseconds

    def read(self, block: bytes) -> tuple[list[Row], list[int]]:
        """The rows of usual lines, and the places of lines that have to be parsed by themselves."""
        try:
            lines = block.decode().removesuffix("\n").split("\n")
        except UnicodeDecodeError:
            return [], list(range(block.removesuffix(b"\n").count(b"\n") + 1))
        if len(self._series) >= MOST_SERIES:
            self._series, self._named, self._arrays = {}, [], (pa.array([], pa.string()),) * 2
        rows: list[Row] = []
        others: list[int] = []
        known = self._series
        for at, line in enumerate(lines):
            if not line or line[0] == "#":
                continue
            name, _, value = line.rpartition(" ")
            series, time = known.get(name), ""
            if series is None:
                time = value
                name, _, value = name.rpartition(" ")
                series = known.get(name)
            row = self._row(series, value, time) if series is not None else self._first(line)
            if row is None:
                others.append(at)
            else:
                rows.append(row)
        return rows, others

    def columns(self, rows: list[Row]) -> RowBlock:
        new = self._named[len(self._arrays[0]) :]
        if new:
            metrics, labels = zip(*new, strict=True)
            more = (pa.array(metrics, pa.string()), pa.array(labels, pa.string()))
            self._arrays = tuple(pa.concat_arrays(pair) for pair in zip(self._arrays, more, strict=True))
        series, values, times = zip(*rows, strict=True)
        numbers = pa.array(series, pa.int32())
        texts = (pa.array(values, pa.string()), pa.array(times, pa.string()))
        named = (array.take(numbers) for array in self._arrays)
        return RowBlock(dict(zip(COLUMNS, (*named, *texts), strict=True)))

    def _first(self, line: str) -> Row | None:
        """A row of a series that has not been seen yet."""
        found = SPLIT.fullmatch(line)
        if found is None:
            return None
        name = self._names.read(found[1])
        if name is None and found[1].startswith("{") and (sample := read_sample(line)):
            name = (sample.metric, labels_json(sample.labels))
        if name is None:
            return None
        series = (len(self._named), *usual_span(name[0]))
        self._named.append(name)
        self._series[found[1]] = series
        return self._row(series, found[2], found[3] or "")

    def _row(self, series: tuple[int, float, float, float], value: str, time: str) -> Row | None:
        number_of_series, scale, least, most = series
        if not USUAL_VALUE(value):
            return None
        if scale:
            number = float(value)
            is_blank = number >= BLANK_INTEGERS[0][0] and not BLANK_INTEGERS[1][1] < number < BLANK_NUMBER
            if is_blank or not least <= number * scale <= most:
                return None
        if time != self._time[0]:  # most lines have the time of the line before
            if time and not USUAL_TIME(time):
                return None
            if time and self._is_open_metrics and float(time) > LATEST_OPEN_METRICS:
                return None
            self._time = (time, _milliseconds(time, self._is_open_metrics) if time else "")
        return number_of_series, value, self._time[1]


def _sample(number: int, line: bytes, is_open_metrics: bool) -> TextRow | BadRow | None:
    text = line.decode("utf-8", "replace").strip()
    if not text or text.startswith("#"):
        return None
    if "\ufffd" in text and not _is_utf8(line):
        return BadRow(number, "not UTF-8", text)
    sample = read_sample(text)
    if sample is None:
        return BadRow(number, "not a sample: a name, labels in braces and a value are expected", text)
    if reason := sample_fault(sample.metric, sample.value):
        return BadRow(number, reason, text)
    moment = _milliseconds(sample.time, is_open_metrics) if sample.time else ""
    value = sample.value.removeprefix("+").lower()
    return TextRow(number, (sample.metric, labels_json(sample.labels), value, moment), text)


def _is_utf8(line: bytes) -> bool:
    try:
        line.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True


def _milliseconds(time: str, is_open_metrics: bool) -> str:
    """OpenMetrics counts seconds; what is no number is left for the check of the column."""
    if not NUMBER.fullmatch(time):
        return time
    return repr(float(time) * 1000) if is_open_metrics else time


def _is_open_metrics(path: Path) -> bool:
    with path.open("rb") as file:
        file.seek(max(path.stat().st_size - 64, 0))
        return file.read().rstrip().endswith(EOF)
