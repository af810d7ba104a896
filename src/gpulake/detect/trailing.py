"""Trailing means and medians, at every point of a series at once."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from gpulake.detect.series import Floats, Ints

CHUNK = 256
ROWS_AT_ONCE = 4096
FIRST_BLOCK = 50
LEAST_BLOCK = 32
GROWTH = 20  # a block is a twentieth of the points before it


def blocks(count: int) -> Iterator[tuple[int, int]]:
    """Begin and end of the blocks that share one fit. They depend only on the place in a series."""
    begin, end = 0, min(count, FIRST_BLOCK)
    while begin < count:
        yield begin, end
        begin, end = end, min(count, end + max(LEAST_BLOCK, end // GROWTH))


def smoothed(values: Floats, points: float) -> Floats:
    """An exponential mean that starts at 0; a chunk at a time, as a product of matrices."""
    keep = 1.0 - 1.0 / points
    ages = np.arange(CHUNK)[:, None] - np.arange(CHUNK)[None, :]
    kernel = np.where(ages >= 0, keep ** np.maximum(ages, 0), 0.0) / points
    fade = keep ** np.arange(1, CHUNK + 1)
    out = np.empty_like(values)
    last = np.zeros(values.shape[1:])
    for begin in range(0, len(values), CHUNK):
        chunk = values[begin : begin + CHUNK]
        size = len(chunk)
        out[begin : begin + size] = kernel[:size, :size] @ chunk + np.multiply.outer(fade[:size], last)
        last = out[begin + size - 1]
    return out


def trailing_means(values: Floats, points: int | None) -> Floats:
    """The mean of the last points before each, or of all (None). NaN does not count; NaN: no value yet."""
    count = len(values)
    is_there = ~np.isnan(values)
    begin = np.zeros((1, values.shape[1]))
    # Relative to the first value: sums of large, close numbers lose precision.
    first = values[np.argmax(is_there, axis=0), np.arange(values.shape[1])] if count else begin[0]
    sums = np.vstack([begin, np.cumsum(np.where(is_there, values - first, 0.0), axis=0)])
    counts = np.vstack([begin, np.cumsum(is_there, axis=0)])
    ends = np.arange(count)
    begins = np.zeros(count, dtype=np.int64) if points is None else np.maximum(ends - points, 0)
    seen = counts[ends] - counts[begins]
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray(np.where(seen > 0, first + (sums[ends] - sums[begins]) / seen, np.nan))


def trailing_medians(values: Floats, points: int) -> Floats:
    """The median of the last points up to and including each. NaN does not count; NaN: no value yet."""
    out = np.empty_like(values)
    padded = np.vstack([np.full((points - 1, values.shape[1]), np.nan), values])
    windows = np.lib.stride_tricks.sliding_window_view(padded, points, axis=0)
    for begin in range(0, len(values), ROWS_AT_ONCE):
        ordered = np.sort(windows[begin : begin + ROWS_AT_ONCE], axis=-1)  # NaN sorts last
        seen = (~np.isnan(ordered)).sum(axis=-1, keepdims=True)
        low = np.take_along_axis(ordered, np.maximum(seen - 1, 0) // 2, axis=-1)
        high = np.take_along_axis(ordered, np.minimum(seen // 2, points - 1), axis=-1)
        out[begin : begin + ROWS_AT_ONCE] = ((low + high) / 2)[..., 0]
    return out


def slots(times_ms: Ints, slot_ms: int, slots_a_period: int) -> tuple[Ints, Ints]:
    """Where each run of points in one slot begins (with the end of all), and the slot of each run."""
    number = times_ms // slot_ms
    starts = np.flatnonzero(np.diff(number, prepend=number[:1] - 1)) if len(number) else np.zeros(0, dtype=np.int64)
    return np.append(starts, len(number)), number[starts] % slots_a_period
