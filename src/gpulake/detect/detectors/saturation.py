"""Something that fills up and, at this rate, will be full within the horizon: memory, disks, queues."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from gpulake.detect.calibration import scores_from
from gpulake.detect.series import Bools, Floats, Scores, Series, no_scores
from gpulake.detect.trailing import trailing_means

LEAST_FIT = 0.8  # of the variance that a straight line must explain
LEAST_PACE = 0.5  # of the line's slope, at which both halves must rise: a step is no trend
LEAST_ALONG = 0.1  # variance of the places; two neighbours have 0.25
RATIO = "_ratio"


@dataclass(frozen=True)
class Saturation:
    """The limit of a metric is the one given; that of a metric named `…_ratio` is 1."""

    limits: Mapping[str, float] = field(default_factory=dict)
    trend_points: int = 60
    horizon_points: float = 120.0
    least_points: int = 60

    def score(self, series: Series) -> Scores:
        if not len(series) or not len(series.metrics):
            return no_scores(series)
        known = [self.limits.get(name, 1.0 if name.endswith(RATIO) else np.nan) for name in series.metrics]
        limit = np.array(known, dtype=np.float64)
        slope, line = _trend(series.values, self.trend_points)
        with np.errstate(invalid="ignore", divide="ignore"):
            left = np.where(slope > 0, np.maximum(limit - series.values, 0.0) / slope, np.inf)
            carried = np.where(np.isfinite(left), self.horizon_points / np.maximum(left, 1e-3), 0.0)
        return scores_from(
            series,
            carried,
            np.ones(len(series)),
            half=1.0,
            least_points=self.least_points,
            expected=line,
            band=np.full(line.shape, np.nan),
        )


def _trend(values: Floats, points: int) -> tuple[Floats, Floats]:
    """The growth per point of a straight line through the last points (0 where none fits), and the line's end."""
    slope, line, is_straight = _line(values, points)
    half = max(2, points // 2)
    recent, _, _ = _line(values, half)
    before = np.vstack([np.zeros((half, values.shape[1])), recent])[: len(values)]
    is_full = np.arange(len(values))[:, None] >= points - 1
    is_rising = is_straight & is_full & (np.minimum(recent, before) >= LEAST_PACE * slope)
    return np.where(is_rising, slope, 0.0), np.where(is_rising, line, np.nan)


def _line(values: Floats, points: int) -> tuple[Floats, Floats, Bools]:
    """Slope and end of a line through the last points, and whether the points lie on it."""
    count = len(values)
    place = np.broadcast_to(np.arange(count, dtype=np.float64)[:, None], values.shape)
    # Relative to the first value: sums of squares of large, close numbers lose precision.
    first = np.nan_to_num(values[np.argmax(~np.isnan(values), axis=0), np.arange(values.shape[1])])
    moved = values - first
    place = np.where(np.isnan(values), np.nan, place)
    nothing = np.full((1, values.shape[1]), np.nan)

    def mean(of: Floats) -> Floats:
        return trailing_means(np.vstack([of, nothing]), points)[1:]

    at, level = mean(place), mean(moved)
    across = mean(place * moved) - at * level
    along, spread = mean(place**2) - at**2, mean(moved**2) - level**2
    # One point has no slope, only rounding errors.
    slope = np.divide(across, along, out=np.zeros_like(across), where=along > LEAST_ALONG)
    with np.errstate(invalid="ignore"):
        is_straight = across**2 >= LEAST_FIT * along * spread
    line = first + level + slope * (np.arange(count)[:, None] - at)
    return slope, line, is_straight & (spread > 0)
