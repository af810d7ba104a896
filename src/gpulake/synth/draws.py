"""Drawing numbers that follow published curves and shares closely at any size, and ids that show they are generated.

Independent draws would leave a small trace several points off the published shares, because a few large gangs and
groups carry most of its rows. So ranks are mapped onto a curve, and shares are dealt in a low-discrepancy order.

Ids are derived from a counter and never stored. A row must be recognisable wherever it lands, so each id begins with
the mark, which the models know; random-looking hexadecimal digits follow.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

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


Floats = NDArray[np.floating[Any]]
Ints = NDArray[np.integer[Any]]
Bools = NDArray[np.bool_]

GOLDEN = 0.6180339887498949


@dataclass(frozen=True)
class Curve:
    """A distribution known by quantiles; between them the logarithm of the value is linear in the share."""

    shares: NDArray[np.float64]
    logs: NDArray[np.float64]

    @classmethod
    def through(cls, percent: Sequence[float], value: Sequence[float], *, least: float, most: float) -> Curve:
        shares = np.array([0.0, *(p / 100 for p in percent), 1.0])
        # A digitised curve can step back by a pixel; a distribution cannot.
        values = np.maximum.accumulate(np.array([min(least, value[0]), *value, most]))
        return cls(shares, np.log(values))

    def value(self, share: Floats) -> NDArray[np.float64]:
        return np.exp(np.interp(share, self.shares, self.logs))

    def share(self, value: Floats) -> NDArray[np.float64]:
        """How much of the distribution is at most this value; values are above 0."""
        return np.interp(np.log(value), self.logs, self.shares)


def generator(seed: int, *stage: int) -> np.random.Generator:
    """A separate random stream for every stage, so that one stage's draws do not shift another's."""
    return np.random.default_rng([seed, *stage])


def ranks(score: Floats) -> NDArray[np.float64]:
    """Each item's place among all, as a share strictly between 0 and 1."""
    place = np.empty(len(score))
    place[np.argsort(score, kind="stable")] = np.arange(len(score)) + 0.5
    return place / max(len(score), 1)


def even(count: int, rng: np.random.Generator) -> NDArray[np.float64]:
    """Shares that fill 0..1 evenly over every stretch of the sequence."""
    shares: NDArray[np.float64] = np.mod(rng.random() + GOLDEN * np.arange(count), 1.0)
    return shares


def choose(weights: Sequence[float], share: Floats) -> NDArray[np.int64]:
    """The index whose stretch of the cumulated weights holds the share."""
    edges = np.cumsum(np.asarray(weights, dtype=float))
    return np.minimum(np.searchsorted(edges / edges[-1], share, side="right"), len(edges) - 1)


def deal(weights: Sequence[float], order_by: Floats, rng: np.random.Generator) -> NDArray[np.int64]:
    """Indices in the proportion of the weights, even over every range of order_by."""
    dealt = np.empty(len(order_by), dtype=np.int64)
    dealt[np.argsort(order_by, kind="stable")] = choose(weights, even(len(order_by), rng))
    return dealt


def quotas(weights: Sequence[float], total: int) -> NDArray[np.int64]:
    """Whole counts in the proportion of the weights that add up to the total (largest remainders)."""
    exact = np.asarray(weights, dtype=float) / np.sum(weights) * total
    counts: NDArray[np.int64] = np.floor(exact).astype(np.int64)
    counts[np.argsort(counts - exact, kind="stable")[: total - counts.sum()]] += 1
    return counts


def sums_by(index: Ints, weights: NDArray[Any], size: int) -> NDArray[np.float64]:
    return np.bincount(index, weights=weights, minlength=size).astype(float)
