"""Rows of a table as series."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from gpulake.detect.series import Floats, Ints, Series

HOUR_MS = 3_600_000


def grouped(table: pa.Table, keys: Sequence[str]) -> Iterator[tuple[tuple[Any, ...], pa.Table]]:
    """The rows of each key; the table is in the order of its keys."""
    if not table.num_rows:
        return
    changes = np.zeros(table.num_rows, dtype=np.bool_)
    changes[0] = True
    for name in keys:
        codes = table[name].combine_chunks().dictionary_encode().indices.fill_null(-1).to_numpy(zero_copy_only=False)
        changes[1:] |= np.diff(codes) != 0
    starts = np.flatnonzero(changes).tolist()
    for begin, end in zip(starts, [*starts[1:], table.num_rows], strict=True):
        part = table.slice(begin, end - begin)
        yield tuple(part[name][0].as_py() for name in keys), part


def numbers(table: pa.Table, name: str) -> Floats:
    """A column; what is empty is NaN."""
    column = table[name].combine_chunks().cast(pa.float64())
    return np.asarray(column.fill_null(np.nan).to_numpy(zero_copy_only=False), dtype=np.float64)


def whole(table: pa.Table, name: str) -> Ints:
    return np.asarray(table[name].combine_chunks().cast(pa.int64()).to_numpy(zero_copy_only=False), dtype=np.int64)


def series_of(
    subject: str,
    table: pa.Table,
    metrics: Sequence[str],
    interval_ms: int,
    *,
    is_dense: bool = False,
    fill: float = 0.0,
) -> Series:
    """Of columns, by column at_ms. A dense series has every interval from the first to the last, the missing filled."""
    times = whole(table, "at_ms")
    values = np.column_stack([numbers(table, name) for name in metrics])
    if is_dense and len(times):
        places = (times - times[0]) // interval_ms
        every = np.full((int(places[-1]) + 1, len(metrics)), fill)
        every[places] = values
        times, values = times[0] + np.arange(len(every), dtype=np.int64) * interval_ms, every
    return Series(subject, tuple(metrics), times, values, interval_ms)
