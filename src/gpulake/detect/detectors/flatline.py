"""A metric that used to change is constant, far longer than ever before: a dead sensor, a job that hangs."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gpulake.detect.calibration import NOISE, scores_from
from gpulake.detect.series import Floats, Scores, Series, no_scores

LEAST_STILL_POINTS = 10.0
LEAST_MOVES = 20


@dataclass(frozen=True)
class Flatline:
    times_longer: float = 3.0
    least_points: int = 60

    def score(self, series: Series) -> Scores:
        if not len(series) or not len(series.metrics):
            return no_scores(series)
        columns = [_stillness(series.values[:, place]) for place in range(len(series.metrics))]
        carried = np.column_stack([column[0] for column in columns])
        last = np.column_stack([column[1] for column in columns])
        threshold = np.full(len(series), self.times_longer)
        return scores_from(
            series,
            carried,
            threshold,
            half=self.times_longer,
            least_points=self.least_points,
            expected=last,
            band=np.full(last.shape, np.nan),
        )


def _stillness(values: Floats) -> tuple[Floats, Floats]:
    """How many times longer than ever before a metric is constant; and its value before each point."""
    count = len(values)
    still, last = np.zeros(count), np.full(count, np.nan)
    seen = np.flatnonzero(~np.isnan(values))
    if not len(seen):
        return still, last
    known = values[seen]
    is_move = np.ones(len(known), dtype=np.bool_)
    is_move[1:] = np.abs(np.diff(known)) > NOISE * np.abs(known[:-1])
    place = np.arange(len(known))
    begin = np.maximum.accumulate(np.where(is_move, place, 0))
    run = place - begin + 1.0
    # A constant stretch counts as the longest so far once the metric changes again.
    ended = np.concatenate([[0.0], np.where(is_move[1:], run[:-1], 0.0)])
    longest = np.maximum.accumulate(ended)
    has_moved = np.cumsum(is_move) > LEAST_MOVES
    still[seen] = np.where(has_moved, run / np.maximum(longest, LEAST_STILL_POINTS / 3.0), 0.0)
    last[seen[1:]] = known[:-1]
    return still, last
