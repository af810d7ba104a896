"""Series from the rows of a query."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from gpulake.detect.series import Floats, Ints, Series

MANDATORY_KEYS = 2  # the cluster, and a machine, node or user; further keys may be null
NODES = ("machine_id", "node_id")
Number = TypeVar("Number", np.int32, np.int64, np.float64)


def grouped(table: pa.Table, keys: Sequence[str]) -> Iterator[tuple[tuple[Any, ...], pa.Table]]:
    """The rows of each key. The table is sorted by its keys; rows without a time or a mandatory key are left out."""
    if table["at_ms"].null_count:
        table = table.filter(table["at_ms"].is_valid())
    if not table.num_rows:
        return
    changes = np.zeros(table.num_rows, dtype=np.bool_)
    changes[0] = True
    for name in keys:
        codes = _values(table[name].combine_chunks().dictionary_encode().indices, np.int32, -1)
        changes[1:] |= np.diff(codes) != 0
    starts = np.flatnonzero(changes).tolist()
    for begin, end in zip(starts, [*starts[1:], table.num_rows], strict=True):
        part = table.slice(begin, end - begin)
        key = tuple(part[name][0].as_py() for name in keys)
        if None not in key[:MANDATORY_KEYS]:
            yield key, part


def floats(table: pa.Table, name: str) -> Floats:
    """A column; null becomes NaN."""
    return _values(table[name].combine_chunks().cast(pa.float64()), np.float64, np.nan)


def integers(table: pa.Table, name: str) -> Ints:
    return _values(table[name].combine_chunks().cast(pa.int64()), np.int64, None)


def _values(column: pa.Array, dtype: type[Number], null: float | None) -> NDArray[Number]:
    """Read from Arrow's buffers: `to_numpy` and `fill_null` import pandas wherever it is installed."""
    validity, data = column.buffers()
    if not len(column):
        return np.empty(0, dtype)
    values = np.frombuffer(data, dtype, column.offset + len(column))[column.offset :].copy()
    if column.null_count:
        if null is None:
            raise ValueError("a column of integers has no value for null")
        bits = np.unpackbits(np.frombuffer(validity, np.uint8), bitorder="little")
        values[bits[column.offset :][: len(column)] == 0] = null
    return values


def series_by(
    table: pa.Table,
    keys: Sequence[str],
    metrics: Sequence[str],
    interval_ms: int,
    unit: str,
    subject: str | None,
    *,
    is_dense: bool = False,
) -> Iterator[Series]:
    """A series for each key, or only that of one subject, which is the last key. The first key is the cluster."""
    for key, rows in grouped(table, keys):
        if subject in (None, key[-1]):
            node = key[-1] if keys[-1] in NODES else None
            yield series_of(key[-1], rows, metrics, interval_ms, unit, key[0], node, is_dense=is_dense)


def series_of(
    subject: str,
    table: pa.Table,
    metrics: Sequence[str],
    interval_ms: int,
    unit: str = "",
    cluster_id: str | None = None,
    node: str | None = None,
    *,
    is_dense: bool = False,
) -> Series:
    """Columns by column at_ms. A dense series has every interval from the first to the last; missing ones are 0."""
    times = integers(table, "at_ms")
    values = np.column_stack([floats(table, name) for name in metrics])
    if is_dense and len(times):
        places = (times - times[0]) // interval_ms
        every = np.zeros((int(places[-1]) + 1, len(metrics)))
        every[places] = values
        times, values = times[0] + np.arange(len(every), dtype=np.int64) * interval_ms, every
    return Series(subject, tuple(metrics), times, values, interval_ms, unit, cluster_id, node)
