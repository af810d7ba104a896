"""Something fills up, and at this pace will be full within the horizon: memory, disks, queues."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from gpulake.detect.calibration import judged
from gpulake.detect.running import last_means
from gpulake.detect.series import Bools, Floats, Scores, Series, silent

LEAST_FIT = 0.8  # of the variance that a straight line must explain
LEAST_PACE = 0.5  # of the line's slope, at which both halves of it must rise: what was loaded at once is no trend
LEAST_ALONG = 0.1  # the variance of the places of two neighbours is a quarter
RATIO = "_ratio"


@dataclass(frozen=True)
class Saturation:
    """A metric fills up to its limit, as given; one that is named a ratio, up to 1."""

    limits: Mapping[str, float] = field(default_factory=dict)
    trend_points: int = 60
    horizon_points: float = 120.0
    least_points: int = 60

    def score(self, series: Series) -> Scores:
        if not len(series) or not len(series.metrics):
            return silent(series)
        known = [self.limits.get(name, 1.0 if name.endswith(RATIO) else np.nan) for name in series.metrics]
        limit = np.array(known, dtype=np.float64)
        slope, line = _trend(series.values, self.trend_points)
        with np.errstate(invalid="ignore", divide="ignore"):
            left = np.where(slope > 0, np.maximum(limit - series.values, 0.0) / slope, np.inf)
            carried = np.where(np.isfinite(left), self.horizon_points / np.maximum(left, 1e-3), 0.0)
        return judged(
            series,
            carried,
            np.ones(len(series)),
            half=1.0,
            least_points=self.least_points,
            expected=line,
            band=np.full(line.shape, np.nan),
        )


def _trend(values: Floats, points: int) -> tuple[Floats, Floats]:
    """How much a metric grows a point, by a straight line through the last ones (0 where none fits), and that line."""
    slope, line, is_straight = _line(values, points)
    half = max(2, points // 2)
    lately, _, _ = _line(values, half)
    before = np.vstack([np.zeros((half, values.shape[1])), lately])[: len(values)]
    is_full = np.arange(len(values))[:, None] >= points - 1
    is_rising = is_straight & is_full & (np.minimum(lately, before) >= LEAST_PACE * slope)
    return np.where(is_rising, slope, 0.0), np.where(is_rising, line, np.nan)


def _line(values: Floats, points: int) -> tuple[Floats, Floats, Bools]:
    """Slope and end of a line through the last points, and whether they lie on it."""
    count = len(values)
    place = np.broadcast_to(np.arange(count, dtype=np.float64)[:, None], values.shape)
    # Of the whole series' first value: sums of squares of large numbers that hardly differ would lose their digits.
    first = np.nan_to_num(values[np.argmax(~np.isnan(values), axis=0), np.arange(values.shape[1])])
    moved = values - first
    place = np.where(np.isnan(values), np.nan, place)
    nothing = np.full((1, values.shape[1]), np.nan)

    def mean(of: Floats) -> Floats:
        return last_means(np.vstack([of, nothing]), points)[1:]

    at, level = mean(place), mean(moved)
    across = mean(place * moved) - at * level
    along, spread = mean(place**2) - at**2, mean(moved**2) - level**2
    # One point has no slope: what is left of its squares are the last digits of large numbers.
    slope = np.divide(across, along, out=np.zeros_like(across), where=along > LEAST_ALONG)
    with np.errstate(invalid="ignore"):
        is_straight = across**2 >= LEAST_FIT * along * spread
    line = first + level + slope * (np.arange(count)[:, None] - at)
    return slope, line, is_straight & (spread > 0)
