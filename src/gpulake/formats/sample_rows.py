"""Samples that come one by one, as blocks of rows: a series is named once, and values are checked all at once."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from datetime import datetime

import numpy as np
import pyarrow as pa

from gpulake.core.types import BadRow, RowBlock
from gpulake.formats.plausible import BLANK_INTEGERS, BLANK_NUMBER
from gpulake.formats.samples import COLUMNS, sample_fault, usual_span

MOST_SERIES = 1_000_000
LATEST_MS = 4_102_444_800_000  # the year 2100
NODE_LABELS = ("Hostname", "hostname", "host_name", "instance")
_NUMBER = re.compile(r"-?[0-9.]+(?:[eE][+-]?[0-9]+)?")
# A time is in seconds, or in thousandths, millionths or billionths of one, by its size.
_UNITS = ((1e11, 1e3), (1e14, 1.0), (1e17, 1e-3), (1e20, 1e-6))


class SampleRows:
    """Series keep their number for as long as it lasts, so that a caller may remember it."""

    def __init__(self) -> None:
        self._series: dict[tuple[str, str], int] = {}
        self._spans = np.empty((0, 3))  # what is usual of each series, as far as rows have needed it
        self._names: list[tuple[str, str]] = []
        self._arrays = (pa.array([], pa.string()),) * 2  # the names, as far as rows have needed them
        self._numbers: list[int] = []  # of the series of each row
        self._values: list[float] = []
        self._runs: list[tuple[int, int, int]] = []  # milliseconds, place of the message, rows that have both

    def __len__(self) -> int:
        return len(self._numbers)

    @property
    def is_full(self) -> bool:
        return len(self._names) >= MOST_SERIES

    def number(self, metric: str, labels: str) -> int:
        """Of a series; its labels are as `labels_json` writes them."""
        found = self._series.get((metric, labels))
        if found is None:
            found = self._series[metric, labels] = len(self._names)
            self._names.append((metric, labels))
        return found

    def add(self, number: int, value: float, at_ms: int, place: int) -> None:
        self._numbers.append(number)
        self._values.append(value)
        self._runs.append((at_ms, place, 1))

    def extend(self, numbers: Sequence[int], values: Sequence[float], at_ms: int, place: int) -> None:
        """Of one time and one message."""
        self._numbers.extend(numbers)
        self._values.extend(values)
        self._runs.append((at_ms, place, len(numbers)))

    def mark(self) -> tuple[int, int]:
        return len(self._numbers), len(self._runs)

    def cut(self, mark: tuple[int, int]) -> None:
        """Takes back what was added since."""
        del self._numbers[mark[0] :], self._values[mark[0] :], self._runs[mark[1] :]

    def take(self) -> Iterator[RowBlock | BadRow]:
        """The rows since the last call: bad ones by themselves."""
        if not self._numbers:
            return
        series, values = np.array(self._numbers), np.array(self._values, dtype=np.float64)
        runs = np.array(self._runs, dtype=np.int64)
        times, places = (np.repeat(runs[:, column], runs[:, 2]) for column in (0, 1))
        self.cut((0, 0))
        new = [usual_span(metric) for metric, _ in self._names[len(self._spans) :]]
        self._spans = np.concatenate((self._spans, np.array(new).reshape(-1, 3)))
        spans = self._spans[series]
        is_blank = (values >= BLANK_INTEGERS[0][0]) & ~((values > BLANK_INTEGERS[1][1]) & (values < BLANK_NUMBER))
        with np.errstate(invalid="ignore"):
            scaled = values * spans[:, 0]
        is_sound = (scaled >= spans[:, 1]) & (scaled <= spans[:, 2]) & ~is_blank
        is_usual = ((spans[:, 0] == 0) | is_sound) & (times >= 0) & (times < LATEST_MS)
        for at in np.flatnonzero(~is_usual).tolist():
            metric, labels = self._names[series[at]]
            value = float(values[at])
            reason = sample_fault(metric, repr(value)) or f"its time is {times[at]} ms, which cannot be"
            yield BadRow(int(places[at]), reason, f"{metric}{labels} {value!r} {times[at]}")
        if is_usual.any():
            named = self._named()
            chosen = pa.array(series[is_usual].astype(np.int32))
            numbers = (pa.array(column[is_usual]).cast(pa.string()) for column in (values, times))
            yield RowBlock(dict(zip(COLUMNS, (*(array.take(chosen) for array in named), *numbers), strict=True)))

    def _named(self) -> tuple[pa.Array, ...]:
        new = self._names[len(self._arrays[0]) :]
        if new:
            more = (pa.array(column, pa.string()) for column in zip(*new, strict=True))
            self._arrays = tuple(pa.concat_arrays(pair) for pair in zip(self._arrays, more, strict=True))
        return self._arrays


def milliseconds(value: object) -> int:
    """A time as others write it. Raises ValueError for what is none."""
    if isinstance(value, str):
        if not _NUMBER.fullmatch(value):
            at = datetime.fromisoformat(value)
            if at.tzinfo is None:
                raise ValueError(f"the time {value!r} has no zone")
            return round(at.timestamp() * 1000)
        value = float(value)
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ValueError(f"the time is {value!r}")
    for most, factor in _UNITS:
        if abs(value) < most:
            return round(value * factor)
    raise ValueError(f"the time is {value!r}")
