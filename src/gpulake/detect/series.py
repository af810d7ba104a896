"""A series, which a detector scores, and its scores."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from gpulake.core.errors import InputError

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS
UNREACHABLE = 2.0
"""A threshold above every score."""


@dataclass(frozen=True)
class Series:
    """Some metrics of one subject, in the order of time."""

    subject: str
    metrics: tuple[str, ...]
    times_ms: Ints  # since 1970, UTC; strictly increasing
    values: Floats  # a row a time, a column a metric; NaN: not measured, which is not zero
    interval_ms: int  # the usual one
    unit: str = ""
    cluster_id: str | None = None
    node: str | None = None
    job_id: str | None = None

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


def utc(time_ms: int) -> datetime:
    return EPOCH + timedelta(milliseconds=time_ms)


def usual_interval_ms(times_ms: Ints) -> int:
    """The median step; a minute where there is none."""
    return max(1, int(np.median(np.diff(times_ms)))) if len(times_ms) > 1 else 60_000


@dataclass(frozen=True)
class Scores:
    """One value a point. The scores of a point depend on it and on the points before it."""

    score: Floats  # 0..1; comparable within a series
    threshold: Floats  # of the score, as the past of the series sets it; above 1: unreachable so far
    expected: Floats  # a column a metric; NaN: nothing can be expected yet
    low: Floats  # the band around the expected value
    high: Floats
    shares: Floats  # each metric's share of the point's score; a row adds up to 1, or is all 0
    is_flagged: Bools
    is_ready: Bools  # there was enough history before it


class Detector(Protocol):
    @property
    def least_points(self) -> int:
        """How many points a series must have before one that can be flagged."""
        ...

    def score(self, series: Series) -> Scores: ...


def no_scores(series: Series) -> Scores:
    """Zero scores and no flags: the series has no points, or too few metrics."""
    count, unknown = len(series), np.full(series.values.shape, np.nan)
    no = np.zeros(count, dtype=np.bool_)
    return Scores(
        np.zeros(count), np.full(count, UNREACHABLE), unknown, unknown, unknown, np.zeros(series.values.shape), no, no
    )


def as_score(statistic: Floats, half: float) -> Floats:
    """Maps 0, `half` and infinity to 0, 0.5 and 1, monotonically."""
    with np.errstate(invalid="ignore"):
        return np.asarray(np.where(np.isinf(statistic), 1.0, statistic / (statistic + half)))
