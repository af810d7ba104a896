"""What a detector looks at, and what it says of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from gpulake.core.errors import InputError

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

DAY_MS = 86_400_000
NEVER = 2.0
"""A threshold that no score reaches."""


@dataclass(frozen=True)
class Series:
    """Some metrics of one subject, in the order of time."""

    subject: str
    metrics: tuple[str, ...]
    times_ms: Ints  # since 1970, UTC; each later than the one before
    values: Floats  # a row a time, a column a metric; NaN: not measured, which is not zero
    interval_ms: int  # the usual one

    def __post_init__(self) -> None:
        if self.values.shape != (len(self.times_ms), len(self.metrics)):
            raise InputError(
                f"series {self.subject!r}: {self.values.shape} values for {len(self.times_ms)} times "
                f"and {len(self.metrics)} metrics",
                "give a row a time and a column a metric",
            )
        if len(self.times_ms) > 1 and not (np.diff(self.times_ms) > 0).all():
            raise InputError(
                f"series {self.subject!r}: times that do not increase", "sort them, and keep one row a time"
            )
        if self.interval_ms <= 0:
            raise InputError(f"series {self.subject!r}: an interval of {self.interval_ms} ms", "give a positive one")

    def __len__(self) -> int:
        return len(self.times_ms)


def usual_interval_ms(times_ms: Ints) -> int:
    """The median step; a minute where there is none."""
    return max(1, int(np.median(np.diff(times_ms)))) if len(times_ms) > 1 else 60_000


@dataclass(frozen=True)
class Scores:
    """One place a point. What is said of a point rests on what came before it, and on itself."""

    score: Floats  # 0..1; comparable within a series
    threshold: Floats  # of the score, as the past of the series sets it; above 1: nothing can reach it yet
    expected: Floats  # a column a metric; NaN: nothing can be expected yet
    low: Floats  # the band around what is expected
    high: Floats
    shares: Floats  # how much of a point's score each metric carries; a row adds up to 1, or is all 0
    is_flagged: Bools
    is_ready: Bools  # enough had been seen before it


class Detector(Protocol):
    @property
    def least_points(self) -> int:
        """How many points a series must have before one that can be flagged."""
        ...

    def score(self, series: Series) -> Scores: ...


def silent(series: Series) -> Scores:
    """Nothing to say."""
    count, unknown = len(series), np.full(series.values.shape, np.nan)
    no = np.zeros(count, dtype=np.bool_)
    return Scores(
        np.zeros(count), np.full(count, NEVER), unknown, unknown, unknown, np.zeros(series.values.shape), no, no
    )


def as_score(statistic: Floats, half: float) -> Floats:
    """Maps 0, a value that is worth a half, and infinity to 0, a half and 1, in the same order."""
    with np.errstate(invalid="ignore"):
        return np.asarray(np.where(np.isinf(statistic), 1.0, statistic / (statistic + half)))
