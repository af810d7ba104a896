"""The last points lie elsewhere than those before them did."""

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
from gpulake.detect.detectors import DETECTORS
from gpulake.detect.running import last_means
from gpulake.detect.series import Scores, Series, silent


@DETECTORS.register("level_shift")
@dataclass(frozen=True)
class LevelShift:
    new_points: int = 10
    old_points: int = 60
    alarms_a_day: float = 0.5
    least_points: int = 140

    def score(self, series: Series) -> Scores:
        if not len(series) or not len(series.metrics):
            return silent(series)
        nothing = np.full((1, len(series.metrics)), np.nan)
        new = last_means(np.vstack([series.values, nothing]), self.new_points)[1:]
        old = np.full_like(new, np.nan)
        kept = max(len(series) - self.new_points + 1, 0)
        old[self.new_points - 1 :] = last_means(series.values, self.old_points)[:kept]
        spread = past_spread(new - old, old)
        carried = in_deviations(new - old, spread, MOST_DEVIATIONS)
        return judged_by_deviations(
            series,
            carried,
            expected=old,
            spread=spread,
            exceeded=exceeded_share(series, self.alarms_a_day, self.new_points),
            least_points=self.least_points,
        )
