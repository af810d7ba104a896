"""A counter that grows faster than it used to: ECC errors, Xids, retries. It may be reset."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gpulake.detect.calibration import exceeded_share, past_thresholds, raised_by_alarms, scores_from
from gpulake.detect.series import Floats, Scores, Series, no_scores
from gpulake.detect.trailing import trailing_means

PRIOR = 0.5  # events, so that a counter that never moved has a rate above 0
HALF = 10.0


@dataclass(frozen=True)
class Burst:
    window_points: int = 10
    alarms_a_day: float = 0.1
    least_points: int = 60

    def score(self, series: Series) -> Scores:
        if not len(series) or not len(series.metrics):
            return no_scores(series)
        grown = _growth(series.values)
        nothing = np.full((1, len(series.metrics)), np.nan)
        recent = np.nan_to_num(trailing_means(np.vstack([grown, nothing]), self.window_points)[1:])
        # The usual rate is that before the window.
        usual = np.zeros_like(recent)
        place = np.arange(len(series)) - self.window_points + 1
        inside = place > 0
        seen = np.maximum(place[inside], 1)[:, None]
        usual[inside] = np.nan_to_num(trailing_means(grown, None))[place[inside]] + PRIOR / seen
        usual[~inside] = PRIOR
        size = self.window_points
        carried = _deviance(recent * size, usual * size)
        exceeded = exceeded_share(series, self.alarms_a_day, size)
        # A counter that never moved has no tail: its threshold is that of chance.
        statistic = carried.max(axis=1)
        threshold = np.maximum(past_thresholds(statistic, exceeded), -2.0 * np.log(exceeded))
        threshold = np.where(inside, threshold, np.inf)
        first = np.full((1, len(series.metrics)), np.nan)
        expected = np.vstack([first, series.values[:-1]]) + usual
        return scores_from(
            series,
            carried,
            raised_by_alarms(series, statistic, threshold, self.least_points),
            half=HALF,
            least_points=self.least_points,
            expected=expected,
            band=np.sqrt(usual * size),
        )


def _growth(values: Floats) -> Floats:
    """The growth of a counter at each point; a counter that fell was reset to 0."""
    grown = np.full(values.shape, np.nan)
    for place in range(values.shape[1]):
        seen = np.flatnonzero(~np.isnan(values[:, place]))
        known = values[seen, place]
        steps = np.diff(known)
        grown[seen[1:], place] = np.where(steps < 0, np.maximum(known[1:], 0.0), steps)
    return grown


def _deviance(events: Floats, usual: Floats) -> Floats:
    """Twice the log-likelihood ratio against the usual rate (Poisson); 0 where there were fewer events than usual."""
    is_more = events > usual
    ratio = np.where(is_more, events, 1.0) / np.where(is_more, usual, 1.0)
    return np.where(is_more, 2.0 * (events * np.log(ratio) - (events - usual)), 0.0)
