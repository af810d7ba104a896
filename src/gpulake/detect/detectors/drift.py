"""A small shift that lasts: what each point alone would not tell, many in a row do.

The sum of how far points are beyond the mean of the past, less what chance allows, never below nothing (Page's test).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from gpulake.detect.calibration import (
    BAND_DEVIATIONS,
    judged,
    own_thresholds,
    past_spread,
)
from gpulake.detect.running import last_means
from gpulake.detect.series import Floats, Scores, Series, silent

MOST, LEAST = 1.2, 0.75  # of the sum that is told: as much as is kept, and what it must fall below to be over
EXCEEDED = 2e-3  # share of points at which a sum may be so large by the waves of the past
MOST_AT_ONCE = 3.0  # deviations that one point may add: an outlier is no drift


@dataclass(frozen=True)
class Drift:
    side: Literal["high", "low"] = "high"
    allowance: float = 0.5  # deviations by which every point may be off
    least_sum: float = 15.0  # of deviations
    most_sum: float = np.inf  # that the waves of the past may ask for
    least_points: int = 60

    def score(self, series: Series) -> Scores:
        if not len(series) or not len(series.metrics):
            return silent(series)
        usual = last_means(series.values, None)
        residual = series.values - usual
        spread = past_spread(residual, usual)
        beyond = np.nan_to_num(residual / spread) * (1.0 if self.side == "high" else -1.0) - self.allowance
        beyond = np.where(np.isnan(residual), 0.0, np.clip(beyond, -MOST_AT_ONCE, MOST_AT_ONCE))
        # While the mean itself is learned, nothing is summed.
        beyond[: self.least_points // 2] = 0.0
        # What always comes and goes in waves must go further than its waves.
        plain = _summed(beyond)
        waves = own_thresholds(plain.max(axis=1), EXCEEDED)
        enough = np.where(np.isinf(waves), self.least_sum, np.clip(waves, self.least_sum, self.most_sum))
        # What never reaches it needs no walk from point to point.
        carried, threshold = _told(beyond, enough) if (plain.max(axis=1) >= enough).any() else (plain, enough)
        return judged(
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


def _told(beyond: Floats, enough: Floats) -> tuple[Floats, Floats]:
    """Sums that do not grow so large that it would take long to wear off, and what each must reach to be told.

    A drift that is on is held to less than it had to reach, as it was when it began.
    """
    sums, threshold = np.zeros(beyond.shape), enough.copy()
    total, held = np.zeros(beyond.shape[1]), 0.0
    for place, row in enumerate(beyond):
        needed = held or float(enough[place])
        total = np.clip(total + row, 0.0, MOST * needed)
        sums[place] = total
        threshold[place] = LEAST * held if held else needed
        is_on = total.max() >= threshold[place]
        held = needed if is_on else 0.0
    return sums, threshold
