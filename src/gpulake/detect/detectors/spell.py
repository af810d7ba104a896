"""An unusual point, or a few in a row: an unusual day, or a weekend of which neither day alone would be flagged.

The expected value is the median of the last points, and of the same weekday where points are days; the spread is a
median, too, so that one spell does not hide the next. The mean of a few points must deviate by more than chance allows
for their number, and the last of them must deviate as well, so that a spell ends with its last unusual point.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gpulake.detect.calibration import (
    HALF_DEVIATIONS,
    LEAST_SPREAD,
    MOST_DEVIATIONS,
    NOISE,
    NORMAL_MEDIAN,
    raised_by_alarms,
    scores_from,
)
from gpulake.detect.series import DAY_MS, Floats, Ints, Scores, Series, no_scores
from gpulake.detect.trailing import trailing_medians

LEVEL_POINTS, SPREAD_POINTS = 28, 56
WEEKS = 8  # kept of each weekday
FEW_WEEKS = 2.0  # with that many weeks, half of a weekday's difference counts


@dataclass(frozen=True)
class Spell:
    windows: tuple[int, ...] = (1, 2)
    least_deviations: float = 6.0
    least_spread: float = LEAST_SPREAD  # in the unit of the values
    least_points: int = 14

    def score(self, series: Series) -> Scores:
        if not len(series) or not len(series.metrics):
            return no_scores(series)
        values = series.values
        expected = before(trailing_medians(values, LEVEL_POINTS))
        if series.interval_ms >= DAY_MS:
            expected = expected + _weekdays(values - expected, _days(series))
        residual = values - expected
        spread = NORMAL_MEDIAN * before(trailing_medians(np.abs(residual), SPREAD_POINTS))
        spread = np.maximum(spread, np.maximum(NOISE * np.abs(expected), self.least_spread))
        deviations = residual / spread
        carried = np.minimum(np.max([_pooled(deviations, points) for points in self.windows], axis=0), MOST_DEVIATIONS)
        statistic = carried.max(axis=1)
        threshold = np.full(len(series), self.least_deviations)
        return scores_from(
            series,
            carried,
            raised_by_alarms(series, statistic, threshold, self.least_points),
            half=HALF_DEVIATIONS,
            least_points=self.least_points,
            expected=expected,
            band=self.least_deviations * np.nan_to_num(spread),
        )


def before(values: Floats) -> Floats:
    """Shifted by one: the value before each point."""
    return np.vstack([np.full((1, values.shape[1]), np.nan), values[:-1]])


def _days(series: Series) -> Ints:
    """Weekdays, counted from the first day: with summer time, local days begin an hour earlier or later than others."""
    return np.asarray((series.times_ms - series.times_ms[0] + DAY_MS // 2) // DAY_MS % 7)


def _weekdays(residual: Floats, weekday: Ints) -> Floats:
    """The usual difference of each weekday; it counts more, the more weeks it rests on."""
    out = np.zeros_like(residual)
    for day in range(7):
        places = np.flatnonzero(weekday == day)
        if len(places):
            past = residual[places]
            usual = before(trailing_medians(past, WEEKS))
            weeks = np.minimum(before(np.cumsum(~np.isnan(past), axis=0).astype(np.float64)), WEEKS)
            out[places] = np.nan_to_num(usual * weeks / (weeks + FEW_WEEKS))
    return out


def _pooled(deviations: Floats, points: int) -> Floats:
    """Deviations of the mean of the last points, where the last point deviates to the same side."""
    known = np.nan_to_num(deviations)
    total = _last_sums(known, points)
    seen = _last_sums((~np.isnan(deviations)).astype(np.float64), points)
    return np.where(known * np.sign(total) >= 1.0, np.abs(total) / np.sqrt(np.maximum(seen, 1.0)), 0.0)


def _last_sums(values: Floats, points: int) -> Floats:
    padded = np.vstack([np.zeros((points - 1, values.shape[1])), values])
    return np.asarray(np.lib.stride_tricks.sliding_window_view(padded, points, axis=0).sum(axis=-1))
