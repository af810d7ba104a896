"""A value that is at its limit or above for several points in a row, whatever it used to be: heat, errors, queues."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from gpulake.detect.calibration import scores_from
from gpulake.detect.series import Scores, Series, no_scores

LEAST_SCALE = 1e-9


@dataclass(frozen=True)
class Limit:
    """A metric without a limit of its own has the common one. A value at its limit scores 0.5."""

    limits: Mapping[str, float] = field(default_factory=dict)
    limit: float = np.inf
    points: int = 3
    least_points: int = 3

    def score(self, series: Series) -> Scores:
        if not len(series) or not len(series.metrics):
            return no_scores(series)
        limit = np.array([self.limits.get(name, self.limit) for name in series.metrics])
        with np.errstate(invalid="ignore"):
            is_over = series.values >= limit
        # How many points in a row, this one included.
        place = np.arange(1, len(series) + 1)[:, None]
        row = place - np.maximum.accumulate(np.where(is_over, 0, place), axis=0)
        scale = np.where(np.isfinite(limit), np.maximum(np.abs(limit), LEAST_SCALE), 1.0)
        beyond = np.where(row >= self.points, np.nan_to_num(series.values - limit, neginf=0.0) / scale, -1.0)
        carried = np.where(row >= self.points, 1.0 + beyond, 0.0)
        return scores_from(
            series,
            carried,
            np.ones(len(series)),
            half=1.0,
            least_points=self.least_points,
            expected=np.broadcast_to(np.where(np.isfinite(limit), limit, np.nan), series.values.shape).copy(),
            band=np.full(series.values.shape, np.nan),
        )
