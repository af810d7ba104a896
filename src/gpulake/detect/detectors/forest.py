"""The reference's isolation forest, fitted on the past alone: again whenever there is twice as much of it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gpulake.detect import forest
from gpulake.detect.calibration import exceeded_share, judged, own_thresholds, wearied
from gpulake.detect.detectors import DETECTORS
from gpulake.detect.running import last_means
from gpulake.detect.series import Scores, Series, silent

FIRST_FIT = 100
HALF = 0.15**3
USUAL = 0.5  # a forest's scores lie between 0 and 1, what is usual below a half
STRETCH = 3  # its scores end where the tails of others begin to fall
POINTS_AN_ALARM = 10.0


@DETECTORS.register("forest")
@dataclass(frozen=True)
class PastForest:
    alarms_a_day: float = 0.5
    least_points: int = 2 * FIRST_FIT

    def score(self, series: Series) -> Scores:
        if not len(series) or not len(series.metrics):
            return silent(series)
        usual = last_means(series.values, None)
        # A forest knows no gaps: what is missing is what it usually was.
        filled = np.nan_to_num(np.where(np.isnan(series.values), usual, series.values))
        strange = np.zeros(len(series))
        begin = FIRST_FIT
        while begin < len(series):
            end = min(len(series), 2 * begin)
            grown = forest.fit(filled[:begin], list(series.metrics))
            beyond = np.maximum(-grown.decide(filled[begin:end]) - grown.offset - USUAL, 0.0)
            strange[begin:end] = beyond**STRETCH
            begin = end
        away = np.abs(series.values - usual)
        spread = np.sqrt(np.maximum(last_means(np.nan_to_num(away) ** 2, None), 1e-100))
        weight = np.nan_to_num(away / np.maximum(np.nan_to_num(spread), 1e-100)) ** 2
        sums = weight.sum(axis=1, keepdims=True)
        even = np.full(weight.shape, 1.0 / weight.shape[1])
        carried = np.divide(weight, sums, out=even, where=(sums > 0) & np.isfinite(sums)) * strange[:, None]
        threshold = own_thresholds(strange, exceeded_share(series, self.alarms_a_day, POINTS_AN_ALARM))
        return judged(
            series,
            carried,
            wearied(series, strange, threshold, self.least_points),
            half=HALF,
            least_points=self.least_points,
            expected=usual,
            band=3.0 * spread,
            total=strange,
        )
