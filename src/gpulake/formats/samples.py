"""Samples of Prometheus as rows, however they were written, and which of them cannot be."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from gpulake.core.clock import LATEST_SECOND
from gpulake.core.types import BadRow, RowBlock, TextRow
from gpulake.formats.names import dcgm_unit
from gpulake.formats.plausible import BLANK_INTEGERS, BLANK_NUMBER, RANGES, is_plausible
from gpulake.formats.prometheus import labels_json
from gpulake.formats.query_range import Series, sample_text, series_of

COLUMNS = ("metric", "labels", "value", "ts_ms")
NUMBER = re.compile(r"[+-]?(\d++\.?\d*+|\.\d++)([eE][+-]?\d++)?|[+-]?(nan|inf|infinity)", re.IGNORECASE | re.ASCII)
BLOCK_ROWS = 100_000


def sample_fault(metric: str, value: str) -> str:
    """Why a value cannot be; empty if it can."""
    if not NUMBER.fullmatch(value):
        return f"value is {value!r}, which is not a number"
    if not metric.startswith("DCGM_FI_"):
        return ""
    unit, scale = dcgm_unit(metric)
    is_whole = value.lstrip("+-").isdigit()
    # A blank is one before it is scaled.
    sound = is_plausible("", float(value)) and (not is_whole or is_plausible("", int(value)))
    if sound and is_plausible(unit, float(value) * scale):
        return ""
    return f"{metric} is {value}, which cannot be"


def usual_span(metric: str) -> tuple[float, float, float]:
    """How much of our unit one of the metric's own is (0: anything can be), and the least and the most that can be."""
    if not metric.startswith("DCGM_FI_"):
        return 0.0, 0.0, 0.0
    unit, scale = dcgm_unit(metric)
    return scale, *RANGES.get(unit, (-1e300, 1e300))


def answer_rows(path: Path) -> Iterator[TextRow | BadRow | RowBlock]:
    """An answer of query_range, many series at a time; samples that are unusual are checked one by one."""
    block: list[Series] = []
    rows = 0
    for found in series_of(path):
        if not isinstance(found, Series):
            yield BadRow(found[0], "not a series: its metric and its values are expected", found[1])
            continue
        block.append(found)
        rows += len(found.values)
        if rows >= BLOCK_ROWS:
            yield from _rows(block)
            block, rows = [], 0
    yield from _rows(block)


def _rows(block: list[Series]) -> Iterator[TextRow | BadRow | RowBlock]:
    counts = [len(series.values) for series in block]
    pairs = [pair for series in block for pair in series.values]
    if not pairs:
        return
    place = np.repeat(np.arange(len(block), dtype=np.int32), counts)
    try:
        seconds, values = zip(*pairs, strict=True)
        with np.errstate(invalid="raise"):
            times = pa.array(np.rint(np.array(seconds, dtype=np.float64) * 1000).astype(np.int64))
        texts = pa.array(values, pa.string())
        numbers = texts.cast(pa.float64()).to_numpy()
    except (ValueError, TypeError, FloatingPointError, OverflowError, pa.ArrowException):
        # Something among them is no pair of a time and a number.
        for series in block:
            yield from (_row(series, pair) for pair in series.values)
        return
    spans = np.array([usual_span(series.metric) for series in block])[place]
    is_blank = (numbers >= BLANK_INTEGERS[0][0]) & ~((numbers > BLANK_INTEGERS[1][1]) & (numbers < BLANK_NUMBER))
    with np.errstate(invalid="ignore"):
        scaled = numbers * spans[:, 0]
    is_sound = (scaled >= spans[:, 1]) & (scaled <= spans[:, 2]) & ~is_blank
    is_usual = np.isfinite(numbers) & ((spans[:, 0] == 0) | is_sound)
    for at in np.flatnonzero(~is_usual).tolist():
        yield _row(block[place[at]], pairs[at])
    chosen = pa.array(place[is_usual])
    if len(chosen):
        metrics = pa.array([series.metric for series in block], pa.string())
        labels = pa.array([labels_json(series.labels) for series in block], pa.string())
        usual = pa.array(is_usual)
        columns = (
            metrics.take(chosen),
            labels.take(chosen),
            texts.filter(usual),
            times.filter(usual).cast(pa.string()),
        )
        yield RowBlock(dict(zip(COLUMNS, columns, strict=True)))


def is_time(seconds: Any) -> bool:
    return isinstance(seconds, int | float) and abs(seconds) <= LATEST_SECOND


def _row(series: Series, pair: Any) -> TextRow | BadRow:
    text = sample_text(series, pair)
    if not isinstance(pair, list) or len(pair) != 2 or not is_time(pair[0]):
        return BadRow(series.line_number, "not a pair of a time and a value", text)
    value = str(pair[1])
    if reason := sample_fault(series.metric, value):
        return BadRow(series.line_number, reason, text)
    fields = (series.metric, labels_json(series.labels), value.removeprefix("+").lower(), str(round(pair[0] * 1000)))
    return TextRow(series.line_number, fields, text)
