"""Not like other Tuesdays: each hour against the same hour of past weeks, after the trend of the last days.

An hour (or a longer interval) is held against the median of that weekday and hour; while weeks are few, of that hour of
any day. Hours that were hardly observed are neither learned nor judged.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gpulake.detect.calibration import (
    MOST_DEVIATIONS,
    exceeded_share,
    in_deviations,
    judged_by_deviations,
    past_spread,
)
from gpulake.detect.running import slots
from gpulake.detect.series import DAY_MS, Bools, Floats, Scores, Series, silent

HOUR_MS = 3_600_000
WEEKS, DAYS = 8, 14  # that are remembered of each hour of the week, and of each hour of the day
FEWEST_WEEKS, FEWEST_DAYS = 2, 3


@dataclass(frozen=True)
class Seasonal:
    alarms_a_day: float = 0.2
    least_coverage_ratio: float = 0.5
    least_points: int = 21  # as days; finer series need three days as well
    # Fewer are nothing to tell of. While the past is too short for a tail of its own, this many are the threshold.
    least_deviations: float | None = None

    def score(self, series: Series) -> Scores:
        if not len(series) or not len(series.metrics):
            return silent(series)
        slot_ms = max(HOUR_MS, series.interval_ms)
        expected = self._expected(series, slot_ms)
        residual = series.values - expected
        spread = past_spread(residual, expected)
        is_known = ~np.isnan(last_known(residual))
        carried = np.where(is_known, in_deviations(residual, spread, MOST_DEVIATIONS), 0.0)
        carried[~self._is_covered(series, slot_ms)] = 0.0
        return judged_by_deviations(
            series,
            carried,
            expected=expected,
            spread=spread,
            exceeded=exceeded_share(series, self.alarms_a_day),
            least_points=self.least_points,
            least_deviations=self.least_deviations,
        )

    def _is_covered(self, series: Series, slot_ms: int) -> Bools:
        """Whether enough was seen in the hour that ends with each point."""
        begin = np.searchsorted(series.times_ms, series.times_ms - slot_ms, side="right")
        seen = np.arange(len(series)) - begin + 1
        possible = np.minimum(slot_ms / series.interval_ms, np.arange(1, len(series) + 1))
        return np.asarray(seen >= self.least_coverage_ratio * possible)

    def _expected(self, series: Series, slot_ms: int) -> Floats:
        values = series.values
        a_day = max(1, DAY_MS // slot_ms)
        # Days are counted from the first: by the clock of a place, one may begin an hour sooner or later than others.
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


def last_known(residual: Floats) -> Floats:
    """NaN until a residual was known before: the first one has nothing to be measured by."""
    known = np.cumsum(~np.isnan(residual), axis=0)
    before = np.vstack([np.zeros((1, residual.shape[1])), known[:-1]])
    return np.where(before >= FEWEST_WEEKS, 0.0, np.nan)


def _median(rows: Floats, fewest: int) -> Floats:
    """By column, of what is there; NaN where that is too little."""
    ordered = np.sort(rows, axis=0)  # what is missing comes last
    seen = (~np.isnan(ordered)).sum(axis=0)
    column = np.arange(rows.shape[1])
    low = ordered[np.maximum(seen - 1, 0) // 2, column]
    high = ordered[np.minimum(seen // 2, len(rows) - 1), column]
    return np.asarray(np.where(seen >= fewest, (low + high) / 2, np.nan))


def _remember(rows: Floats, row: Floats) -> None:
    """The oldest goes."""
    rows[:-1] = rows[1:]
    rows[-1] = row
