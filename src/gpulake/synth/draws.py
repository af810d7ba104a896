"""Drawing numbers that follow published curves and shares closely at any size.

Independent draws would leave a small trace several points off the published shares, because a few large gangs and
groups carry most of its rows. So ranks are mapped onto a curve, and shares are dealt in a low-discrepancy order.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

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
