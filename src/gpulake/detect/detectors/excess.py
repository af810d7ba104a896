"""A larger share of events than usual: jobs that fail of those submitted, requests refused of those made.

The first metric counts events, the second the total. Their share over a few points is compared with the share before
these points; the statistic is how unlikely it is by chance. Events cluster, so the threshold comes from the tail of the
series' past.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gpulake.detect.calibration import exceeded_share, past_thresholds, raised_by_alarms, scores_from
from gpulake.detect.series import Floats, Scores, Series, no_scores

EVENTS, OUT_OF = 0, 1
PRIOR = 1.0  # events, so that the usual share is never 0
HALF = 20.0


@dataclass(frozen=True)
class Excess:
    window_points: int = 4
    least_deviance: float = 20.0
    alarms_a_day: float = 0.05
    least_points: int = 60

    def score(self, series: Series) -> Scores:
        if not len(series) or len(series.metrics) <= OUT_OF:
            return no_scores(series)
        out_of = np.maximum(np.nan_to_num(series.values[:, OUT_OF]), 0.0)
        events = np.clip(np.nan_to_num(series.values[:, EVENTS]), 0.0, out_of)
        recent, recent_of = _last(events, self.window_points), _last(out_of, self.window_points)
        before, before_of = np.cumsum(events) - recent, np.cumsum(out_of) - recent_of
        share = (before + PRIOR) / (before_of + 2.0 * PRIOR)
        statistic = _deviance(recent, recent_of, share)
        exceeded = exceeded_share(series, self.alarms_a_day, self.window_points)
        threshold = np.maximum(past_thresholds(statistic, exceeded), self.least_deviance)
        unknown = np.full(series.values.shape, np.nan)
        expected, band, carried = unknown.copy(), unknown.copy(), np.zeros(series.values.shape)
        carried[:, EVENTS] = statistic
        expected[:, EVENTS] = share * out_of
        band[:, EVENTS] = 3.0 * np.sqrt(share * (1.0 - share) * out_of)
        return scores_from(
            series,
            carried,
            raised_by_alarms(series, statistic, threshold, self.least_points),
            half=HALF,
            least_points=self.least_points,
            expected=expected,
            band=band,
        )


def _last(values: Floats, points: int) -> Floats:
    """The sum of the last points, up to and including each."""
    total = np.concatenate([[0.0], np.cumsum(values)])
    ends = np.arange(1, len(total))
    return np.asarray(total[ends] - total[np.maximum(ends - points, 0)])


def _deviance(events: Floats, out_of: Floats, share: Floats) -> Floats:
    """Twice the log-likelihood ratio against the usual share (binomial); 0 where there were fewer events than usual."""
    is_more = (events > share * out_of) & (out_of > 0)
    rest = out_of - events
    with np.errstate(divide="ignore", invalid="ignore"):
        came = np.where(events > 0, events * np.log(events / (share * out_of)), 0.0)
        stayed = np.where(rest > 0, rest * np.log(rest / ((1.0 - share) * out_of)), 0.0)
    return np.where(is_more, np.maximum(2.0 * (came + stayed), 0.0), 0.0)
