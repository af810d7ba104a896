"""A point that is far from the points just before it."""

from __future__ import annotations

from dataclasses import dataclass

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

LAST_POINTS = 10


@DETECTORS.register("spike")
@dataclass(frozen=True)
class Spike:
    alarms_a_day: float = 0.5
    least_points: int = 100

    def score(self, series: Series) -> Scores:
        if not len(series) or not len(series.metrics):
            return silent(series)
        expected = last_means(series.values, LAST_POINTS)
        residual = series.values - expected
        spread = past_spread(residual, expected)
        carried = in_deviations(residual, spread, MOST_DEVIATIONS)
        return judged_by_deviations(
            series,
            carried,
            expected=expected,
            spread=spread,
            exceeded=exceeded_share(series, self.alarms_a_day),
            least_points=self.least_points,
        )
