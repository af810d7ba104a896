"""A point, or a few in a row, that lie aside: a strange day, or a strange weekend of which neither day would tell.

What is usual is the median of the last points, and of those of the same weekday where points are days; so is what it
varies by: one strange spell hides no other. The mean of a few points must lie further off than their number lets it
by chance, and the last of them lies off as well: a spell ends with its last strange point.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gpulake.detect.calibration import BAND_DEVIATIONS, HALF_DEVIATIONS, LEAST_SPREAD, NOISE, judged, wearied
from gpulake.detect.running import last_medians
from gpulake.detect.series import DAY_MS, Floats, Ints, Scores, Series, silent

LEVEL_POINTS, SPREAD_POINTS = 28, 56
WEEKS = 8  # that are remembered of each weekday
FEW_WEEKS = 2.0  # as many weeks halve the doubt that a weekday differs at all
NORMAL_MEDIAN = 1.4826  # makes the median deviation of a normal distribution its standard deviation
MOST_DEVIATIONS = 1000.0


@dataclass(frozen=True)
class Spell:
    windows: tuple[int, ...] = (1, 2)
    least_deviations: float = 6.0
    least_spread: float = LEAST_SPREAD  # of the values' own unit: what varies by less is as good as still
    least_points: int = 14

    def score(self, series: Series) -> Scores:
        if not len(series) or not len(series.metrics):
            return silent(series)
        values = series.values
        expected = before(last_medians(values, LEVEL_POINTS))
        if series.interval_ms >= DAY_MS:
            expected = expected + _weekdays(values - expected, _days(series))
        residual = values - expected
        spread = NORMAL_MEDIAN * before(last_medians(np.abs(residual), SPREAD_POINTS))
        spread = np.maximum(spread, np.maximum(NOISE * np.abs(expected), self.least_spread))
        deviations = residual / spread
        carried = np.minimum(np.max([_pooled(deviations, points) for points in self.windows], axis=0), MOST_DEVIATIONS)
        statistic = carried.max(axis=1)
        threshold = np.full(len(series), self.least_deviations)
        return judged(
            series,
            carried,
            wearied(series, statistic, threshold, self.least_points),
            half=HALF_DEVIATIONS,
            least_points=self.least_points,
            expected=expected,
            band=BAND_DEVIATIONS * np.nan_to_num(spread),
        )


def before(values: Floats) -> Floats:
    """What was known before each point."""
    return np.vstack([np.full((1, values.shape[1]), np.nan), values[:-1]])


def _days(series: Series) -> Ints:
    """Days are counted from the first: by the clock of a place, one may begin an hour sooner or later than others."""
    return np.asarray((series.times_ms - series.times_ms[0] + DAY_MS // 2) // DAY_MS % 7)


def _weekdays(residual: Floats, weekday: Ints) -> Floats:
    """By how much each weekday used to differ; believed the more, the more weeks have told so."""
    found = np.zeros_like(residual)
    for day in range(7):
        places = np.flatnonzero(weekday == day)
        if len(places):
            past = residual[places]
            usual = before(last_medians(past, WEEKS))
            weeks = np.minimum(before(np.cumsum(~np.isnan(past), axis=0).astype(np.float64)), WEEKS)
            found[places] = np.nan_to_num(usual * weeks / (weeks + FEW_WEEKS))
    return found


def _pooled(deviations: Floats, points: int) -> Floats:
    """How many deviations the mean of the last points is off, where the last one is off to the same side."""
    known = np.nan_to_num(deviations)
    total = _last_sums(known, points)
    seen = _last_sums((~np.isnan(deviations)).astype(np.float64), points)
    return np.where(known * np.sign(total) >= 1.0, np.abs(total) / np.sqrt(np.maximum(seen, 1.0)), 0.0)


def _last_sums(values: Floats, points: int) -> Floats:
    padded = np.vstack([np.zeros((points - 1, values.shape[1])), values])
    return np.asarray(np.lib.stride_tricks.sliding_window_view(padded, points, axis=0).sum(axis=-1))
