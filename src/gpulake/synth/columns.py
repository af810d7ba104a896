"""Columns: numbers turned into the text of the published files."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from gpulake.synth.draws import Bools, Floats, Ints

TIME_DIGITS = 7  # every second of this trace lies between 1,000,000 and 9,999,999
SUFFIX = b".0"


def words(codes: Ints, names: Sequence[str]) -> pa.Array:
    """The name of each code; -1 and the empty name are written as nothing."""
    known = pa.array([name or None for name in names], pa.string())
    return known.take(pa.array(codes, mask=np.asarray(codes) < 0))


def seconds(second: Ints, is_known: Bools) -> pa.Array:
    """Times as "4550879.0", or nothing."""
    width = TIME_DIGITS + len(SUFFIX)
    text = np.empty((len(second), width), dtype=np.uint8)
    rest = np.asarray(second, dtype=np.uint32)
    for place in range(TIME_DIGITS - 1, -1, -1):
        rest, digit = np.divmod(rest, np.uint32(10))
        text[:, place] = digit + 48
    text[:, TIME_DIGITS:] = np.frombuffer(SUFFIX, dtype=np.uint8)
    offsets = np.arange(0, (len(second) + 1) * width, width, dtype=np.int32)
    mask = pa.py_buffer(np.packbits(is_known, bitorder="little"))
    return pa.Array.from_buffers(pa.string(), len(second), [mask, pa.py_buffer(offsets), pa.py_buffer(text)])


def floats(value: Floats | Ints, is_known: Bools | None = None) -> pa.Array:
    """Few distinct numbers as Python writes floats: "600.0", "29.296875"."""
    distinct, index = np.unique(np.asarray(value, dtype=float), return_inverse=True)
    codes = index if is_known is None else np.where(is_known, index, -1)
    return words(codes, [repr(float(number)) for number in distinct])


def decimals(value: NDArray[np.float64], digits: int) -> pa.Array:
    return pa.array(np.round(value, digits))
