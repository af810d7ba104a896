"""One of several peers differs from the others: a worker from its gang, a GPU from its node.

The metrics of the series are the peers. Those beyond the widest gap, at most half of them, are compared with the rest,
in deviations of the rest.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from gpulake.detect.calibration import NORMAL, scores_from
from gpulake.detect.series import Floats, Scores, Series, no_scores
from gpulake.detect.trailing import trailing_means, trailing_medians

LEAST_SPREAD_RATIO = 0.01  # of their level: the least spread of peers
FEWEST_PEERS = 4
FEWEST_REST = 3
NOISE_LEFT = 1.5


@dataclass(frozen=True)
class Straggler:
    side: Literal["high", "low"] = "high"
    deviations: float = 4.0
    least_difference: float = 0.05  # of the level of the rest
    over_points: int = 30
    least_points: int = 30

    def score(self, series: Series) -> Scores:
        if not len(series) or len(series.metrics) < FEWEST_PEERS:
            return no_scores(series)
        nothing = np.full((1, len(series.metrics)), np.nan)
        # Medians: one slow step does not make a slow worker.
        level = trailing_medians(series.values, self.over_points)
        # Equal peers still differ by the noise that is left after averaging.
        moved = series.values - level
        noise_of = trailing_means(np.vstack([np.abs(moved), nothing]), self.over_points)[1:]
        chance = NORMAL * np.median(np.nan_to_num(noise_of), axis=1)
        noise = NOISE_LEFT * chance / np.sqrt(self.over_points)
        carried, rest, spread = _apart(level if self.side == "high" else -level, noise)
        rest = rest if self.side == "high" else -rest
        away = np.abs(level - rest[:, None]) >= self.least_difference * np.abs(rest)[:, None]
        expected = np.repeat(rest[:, None], len(series.metrics), axis=1)
        return scores_from(
            series,
            np.where(away, carried, 0.0),
            np.full(len(series), self.deviations),
            half=self.deviations,
            least_points=self.least_points,
            expected=expected,
            band=np.repeat(self.deviations * spread[:, None], len(series.metrics), axis=1),
        )


def _apart(level: Floats, noise: Floats) -> tuple[Floats, Floats, Floats]:
    """How far each peer is above the rest, in deviations of the rest (0: part of it); the rest's mean and spread."""
    count, peers = level.shape
    order = np.argsort(level, axis=1)  # NaN sorts last
    ordered = np.take_along_axis(level, order, axis=1)
    present = (~np.isnan(ordered)).sum(axis=1)
    gaps = np.diff(ordered, axis=1)
    place = np.arange(peers - 1)[None, :]
    # At most half of those present may be beyond the gap.
    is_allowed = (place + 1 >= np.maximum(np.ceil(present / 2), FEWEST_REST)[:, None]) & (place + 1 < present[:, None])
    gaps = np.where(is_allowed & ~np.isnan(gaps), gaps, -1.0)
    cut = np.argmax(gaps, axis=1)
    is_rest = (np.arange(peers)[None, :] <= cut[:, None]) & (present >= FEWEST_PEERS)[:, None]
    number = np.maximum(is_rest.sum(axis=1), 1)
    kept = np.where(is_rest, ordered, 0.0)
    mean = kept.sum(axis=1) / number
    squares = np.where(is_rest, (ordered - mean[:, None]) ** 2, 0.0).sum(axis=1)
    spread = np.sqrt(squares / np.maximum(number - 1, 1) * (1 + 1 / number))
    spread = np.maximum(spread, np.maximum(LEAST_SPREAD_RATIO * np.abs(mean), noise)) + 1e-100
    is_beyond = ~is_rest & ~np.isnan(ordered) & (present >= FEWEST_PEERS)[:, None]
    apart = np.where(is_beyond, np.maximum(ordered - mean[:, None], 0.0) / spread[:, None], 0.0)
    carried = np.zeros((count, peers))
    np.put_along_axis(carried, order, apart, axis=1)
    return carried, mean, spread
