"""A counter that grows faster than it used to: ECC errors, Xids, retries. It may begin anew."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gpulake.detect.calibration import exceeded_share, judged, own_thresholds, wearied
from gpulake.detect.running import last_means
from gpulake.detect.series import Floats, Scores, Series, silent

PRIOR = 0.5  # of an event, so that a counter that never moved expects a little
HALF = 10.0


@dataclass(frozen=True)
class Burst:
    window_points: int = 10
    alarms_a_day: float = 0.1
    least_points: int = 60

    def score(self, series: Series) -> Scores:
        if not len(series) or not len(series.metrics):
            return silent(series)
        grown = _growth(series.values)
        nothing = np.full((1, len(series.metrics)), np.nan)
        recent = np.nan_to_num(last_means(np.vstack([grown, nothing]), self.window_points)[1:])
        # What the window itself adds must not be expected of it.
        usual = np.zeros_like(recent)
        place = np.arange(len(series)) - self.window_points + 1
        inside = place > 0
        seen = np.maximum(place[inside], 1)[:, None]
        usual[inside] = np.nan_to_num(last_means(grown, None))[place[inside]] + PRIOR / seen
        usual[~inside] = PRIOR
        size = self.window_points
        carried = _deviance(recent * size, usual * size)
        exceeded = exceeded_share(series, self.alarms_a_day, size)
        # A counter that always stood still has no tail: chance alone sets its threshold.
        statistic = carried.max(axis=1)
        threshold = np.maximum(own_thresholds(statistic, exceeded), -2.0 * np.log(exceeded))
        threshold = np.where(inside, threshold, np.inf)
        first = np.full((1, len(series.metrics)), np.nan)
        expected = np.vstack([first, series.values[:-1]]) + usual
        return judged(
            series,
            carried,
            wearied(series, statistic, threshold, self.least_points),
            half=HALF,
            least_points=self.least_points,
            expected=expected,
            band=np.sqrt(usual * size),
        )


def _growth(values: Floats) -> Floats:
    """By how much a counter grew up to each point; one that fell began anew at nothing."""
    grown = np.full(values.shape, np.nan)
    for place in range(values.shape[1]):
        seen = np.flatnonzero(~np.isnan(values[:, place]))
        known = values[seen, place]
        steps = np.diff(known)
        grown[seen[1:], place] = np.where(steps < 0, np.maximum(known[1:], 0.0), steps)
    return grown


def _deviance(found: Floats, usual: Floats) -> Floats:
    """Twice the log-likelihood ratio of so many events against so many expected (Poisson); 0 where fewer came."""
    is_more = found > usual
    ratio = np.where(is_more, found, 1.0) / np.where(is_more, usual, 1.0)
    return np.where(is_more, 2.0 * (found * np.log(ratio) - (found - usual)), 0.0)
