"""Each hour against the same hour of past weeks, after the trend of the last days.

An hour (or a longer interval) is compared with the median of that weekday and hour; while there are few weeks, with
that of the same hour of all days. Poorly covered hours are neither learned nor scored.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gpulake.detect.calibration import (
    BAND_DEVIATIONS,
    HALF_DEVIATIONS,
    MOST_DEVIATIONS,
    exceeded_share,
    past_spread,
    past_thresholds,
    raised_by_alarms,
    scores_from,
)
from gpulake.detect.series import DAY_MS, HOUR_MS, Bools, Floats, Scores, Series, no_scores
from gpulake.detect.trailing import slots

WEEKS, DAYS = 8, 14  # kept of each hour of the week, and of each hour of the day
FEWEST_WEEKS, FEWEST_DAYS = 2, 3


@dataclass(frozen=True)
class Seasonal:
    alarms_a_day: float = 0.2
    least_coverage_ratio: float = 0.5
    least_points: int = 21
    # The least threshold, and the threshold while the past is too short to set one.
    least_deviations: float | None = None

    def score(self, series: Series) -> Scores:
        if not len(series) or not len(series.metrics):
            return no_scores(series)
        slot_ms = max(HOUR_MS, series.interval_ms)
        expected = self._expected(series, slot_ms)
        residual = series.values - expected
        spread = past_spread(residual, expected)
        # A missing value deviates by 0.
        deviations = np.minimum(np.nan_to_num(np.abs(residual), nan=0.0) / spread, MOST_DEVIATIONS)
        carried = np.where(_has_spread(residual), deviations, 0.0)
        carried[~self._is_covered(series, slot_ms)] = 0.0
        statistic = carried.max(axis=1)
        threshold = past_thresholds(statistic, exceeded_share(series, self.alarms_a_day))
        if (least := self.least_deviations) is not None:
            threshold = np.where(np.isinf(threshold), least, np.maximum(threshold, least))
        return scores_from(
            series,
            carried,
            raised_by_alarms(series, statistic, threshold, self.least_points),
            half=HALF_DEVIATIONS,
            least_points=self.least_points,
            expected=expected,
            band=BAND_DEVIATIONS * spread,
        )

    def _is_covered(self, series: Series, slot_ms: int) -> Bools:
        """Whether the hour that ends with each point has enough points."""
        begin = np.searchsorted(series.times_ms, series.times_ms - slot_ms, side="right")
        seen = np.arange(len(series)) - begin + 1
        possible = np.minimum(slot_ms / series.interval_ms, np.arange(1, len(series) + 1))
        return np.asarray(seen >= self.least_coverage_ratio * possible)

    def _expected(self, series: Series, slot_ms: int) -> Floats:
        values = series.values
        a_day = max(1, DAY_MS // slot_ms)
        # Days are counted from the first: with summer time, a local day begins an hour earlier or later than others.
        origin = int(series.times_ms[0]) - slot_ms // 2 if slot_ms >= DAY_MS else 0
        starts, kinds = slots(series.times_ms - origin, slot_ms, 7 * a_day)
        weekly = np.full((7 * a_day, WEEKS, values.shape[1]), np.nan)
        daily = np.full((a_day, DAYS, values.shape[1]), np.nan)
        offsets = np.full((7 * a_day, values.shape[1]), np.nan)
        expected = np.full(values.shape, np.nan)
        enough = self.least_coverage_ratio * slot_ms / series.interval_ms
        for place, kind in enumerate(kinds.tolist()):
            begin, end = int(starts[place]), int(starts[place + 1])
            base = _median(weekly[kind], FEWEST_WEEKS)
            base = np.where(np.isnan(base), _median(daily[kind % a_day], FEWEST_DAYS), base)
            trend = np.nan_to_num(_median(offsets, 1))
            expected[begin:end] = base + trend
            if end - begin < enough:
                continue
            seen = _median(values[begin:end], 1)
            _remember(weekly[kind], seen)
            _remember(daily[kind % a_day], seen)
            _remember(offsets, seen - base)
        return expected


def _has_spread(residual: Floats) -> Bools:
    """Whether there were residuals before each point, from which a spread follows."""
    known = np.cumsum(~np.isnan(residual), axis=0)
    before = np.vstack([np.zeros((1, residual.shape[1])), known[:-1]])
    return np.asarray(before >= FEWEST_WEEKS)


def _median(rows: Floats, fewest: int) -> Floats:
    """By column; NaN where there are too few values."""
    ordered = np.sort(rows, axis=0)  # NaN sorts last
    seen = (~np.isnan(ordered)).sum(axis=0)
    column = np.arange(rows.shape[1])
    low = ordered[np.maximum(seen - 1, 0) // 2, column]
    high = ordered[np.minimum(seen // 2, len(rows) - 1), column]
    return np.asarray(np.where(seen >= fewest, (low + high) / 2, np.nan))


def _remember(rows: Floats, row: Floats) -> None:
    """Drops the oldest row."""
    rows[:-1] = rows[1:]
    rows[-1] = row
