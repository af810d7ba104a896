"""Ids that say that they are generated, derived from a counter and never stored.

A row must be recognisable wherever it lands, so each id begins with the mark, which the models know; random-looking
hexadecimal digits follow.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from gpulake.synth.draws import Bools, Ints

Words = NDArray[np.uint64]

MARK = "synth-"
LENGTHS = {"job": 24, "inst": 60, "instance": 60, "worker": 60, "user": 18, "group": 32, "machine": 24}
"""Characters of each kind of id, the mark among them: as published, but for users, whose 12 would leave too few."""

# Sixteen bits become four digits at a time: one lookup instead of four.
_DIGITS = np.frombuffer("".join(f"{word:04x}" for word in range(65536)).encode(), dtype=np.uint32)


def _mixed(counter: Words) -> Words:
    """splitmix64's finaliser: a bijection, so that two counters never share their first sixteen digits."""
    mixed: Words = (counter ^ (counter >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    mixed ^= mixed >> np.uint64(31)
    return mixed


class Ids:
    """The ids of one trace: a word of an id is a mixed counter, which starts from the seed and the kind."""

    def __init__(self, seed: int) -> None:
        self._seed = seed

    def column(self, kind: str, number: Ints, is_null: Bools | None = None) -> pa.Array:
        length = LENGTHS[kind]
        text = np.empty((len(number), length), dtype=np.uint8)
        text[:, : len(MARK)] = np.frombuffer(MARK.encode(), dtype=np.uint8)
        text[:, len(MARK) :] = self._digits(kind, number, length - len(MARK))
        offsets = np.arange(0, (len(number) + 1) * length, length, dtype=np.int32)
        mask = None if is_null is None else pa.py_buffer(np.packbits(~is_null, bitorder="little"))
        return pa.Array.from_buffers(pa.string(), len(number), [mask, pa.py_buffer(offsets), pa.py_buffer(text)])

    def text(self, kind: str, number: int) -> str:
        value: str = self.column(kind, np.array([number]))[0].as_py()
        return value

    def _digits(self, kind: str, number: Ints, length: int) -> NDArray[np.uint8]:
        stream = list(LENGTHS).index(kind) + 1
        key = _mixed(np.array([(self._seed * 16 + stream) % 2**64], dtype=np.uint64))
        words = np.empty((len(number), -(-length // 16)), dtype=np.uint64)
        counter = number.astype(np.uint64) + key
        for place in range(words.shape[1]):
            words[:, place] = _mixed(counter)
            counter = counter + np.uint64(0x9E3779B97F4A7C15)
        quads = _DIGITS[words.view(np.uint16)]
        return quads.view(np.uint8)[:, :length]
