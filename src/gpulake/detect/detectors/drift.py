"""A small shift that lasts: too small in each point, visible in many in a row.

The running sum of the deviations from the past mean, less an allowance, never below 0 (Page's test, CUSUM).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from gpulake.detect.calibration import BAND_DEVIATIONS, past_spread, past_thresholds, scores_from
from gpulake.detect.series import Floats, Scores, Series, no_scores
from gpulake.detect.trailing import trailing_means

MOST, LEAST = 1.2, 0.75  # of the threshold: the sum is clipped at MOST, an alarm ends below LEAST
EXCEEDED = 2e-3  # share of past points whose sum may exceed the threshold
MOST_AT_ONCE = 3.0  # deviations one point may add: an outlier is no drift


@dataclass(frozen=True)
class Drift:
    side: Literal["high", "low"] = "high"
    allowance: float = 0.5  # deviations that every point may be off
    least_sum: float = 15.0  # of deviations
    most_sum: float = np.inf  # the most that the past may raise the threshold to
    least_points: int = 60

    def score(self, series: Series) -> Scores:
        if not len(series) or not len(series.metrics):
            return no_scores(series)
        usual = trailing_means(series.values, None)
        residual = series.values - usual
        spread = past_spread(residual, usual)
        beyond = np.nan_to_num(residual / spread) * (1.0 if self.side == "high" else -1.0) - self.allowance
        beyond = np.where(np.isnan(residual), 0.0, np.clip(beyond, -MOST_AT_ONCE, MOST_AT_ONCE))
        # Nothing is summed while the mean is still being learned.
        beyond[: self.least_points // 2] = 0.0
        # A series that comes and goes in waves must exceed its usual waves.
        plain = _summed(beyond)
        waves = past_thresholds(plain.max(axis=1), EXCEEDED)
        needed = np.where(np.isinf(waves), self.least_sum, np.clip(waves, self.least_sum, self.most_sum))
        # The loop over points is only needed where the threshold is reached.
        carried, threshold = _clipped(beyond, needed) if (plain.max(axis=1) >= needed).any() else (plain, needed)
        return scores_from(
            series,
            carried,
            threshold,
            half=self.least_sum,
            least_points=self.least_points,
            expected=usual,
            band=BAND_DEVIATIONS * spread,
        )


def _summed(beyond: Floats) -> Floats:
    total = np.cumsum(beyond, axis=0)
    return total - np.minimum.accumulate(np.minimum(total, 0.0), axis=0)


def _clipped(beyond: Floats, needed: Floats) -> tuple[Floats, Floats]:
    """Sums clipped so that an alarm ends soon after its drift, and the threshold of each point.

    A drift in progress is compared with a part of the threshold it began with (hysteresis).
    """
    sums, threshold = np.zeros(beyond.shape), needed.copy()
    total, started_with = np.zeros(beyond.shape[1]), 0.0
    for place, row in enumerate(beyond):
        base = started_with or float(needed[place])
        total = np.clip(total + row, 0.0, MOST * base)
        sums[place] = total
        threshold[place] = LEAST * started_with if started_with else base
        started_with = base if total.max() >= threshold[place] else 0.0
    return sums, threshold
