"""One of many that ought to be alike is not: a worker against its gang, a GPU against its node.

Metrics of the series are the peers. Those beyond the widest gap, at most half of them, are held against the rest: in
deviations of the rest, so that how alike the peers are sets the threshold.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from gpulake.detect.calibration import NORMAL, judged
from gpulake.detect.running import last_means, last_medians
from gpulake.detect.series import Floats, Scores, Series, silent

LEAST_ALIKE = 0.01  # of their level: peers are never more alike than that
FEWEST_PEERS = 4
FEWEST_REST = 3
NOISE_LEFT = 1.5


@dataclass(frozen=True)
class Straggler:
    side: Literal["high", "low"] = "high"
    deviations: float = 4.0
    least_difference: float = 0.05  # of the level of the rest: less is not worth a word
    over_points: int = 30
    least_points: int = 30

    def score(self, series: Series) -> Scores:
        if not len(series) or len(series.metrics) < FEWEST_PEERS:
            return silent(series)
        nothing = np.full((1, len(series.metrics)), np.nan)
        # One step that took an age is no slow worker, so medians.
        level = last_medians(series.values, self.over_points)
        # Peers that are alike still differ by chance: by what is left of their noise after taking the mean.
        moved = series.values - level
        noise_of = last_means(np.vstack([np.abs(moved), nothing]), self.over_points)[1:]
        chance = NORMAL * np.median(np.nan_to_num(noise_of), axis=1)
        noise = NOISE_LEFT * chance / np.sqrt(self.over_points)
        carried, rest, spread = _apart(level if self.side == "high" else -level, noise)
        rest = rest if self.side == "high" else -rest
        away = np.abs(level - rest[:, None]) >= self.least_difference * np.abs(rest)[:, None]
        expected = np.repeat(rest[:, None], len(series.metrics), axis=1)
        return judged(
            series,
            np.where(away, carried, 0.0),
            np.full(len(series), self.deviations),
            half=self.deviations,
            least_points=self.least_points,
            expected=expected,
            band=np.repeat(self.deviations * spread[:, None], len(series.metrics), axis=1),
        )


def _apart(level: Floats, noise: Floats) -> tuple[Floats, Floats, Floats]:
    """How far each peer is above the rest, in deviations of the rest (0: it is of the rest); mean and spread of it."""
    count, peers = level.shape
    order = np.argsort(level, axis=1)  # what is missing comes last
    ordered = np.take_along_axis(level, order, axis=1)
    present = (~np.isnan(ordered)).sum(axis=1)
    gaps = np.diff(ordered, axis=1)
    place = np.arange(peers - 1)[None, :]
    # Whoever is beyond the gap must be at most half of those present.
    is_allowed = (place + 1 >= np.maximum(np.ceil(present / 2), FEWEST_REST)[:, None]) & (place + 1 < present[:, None])
    gaps = np.where(is_allowed & ~np.isnan(gaps), gaps, -1.0)
    cut = np.argmax(gaps, axis=1)
    is_rest = (np.arange(peers)[None, :] <= cut[:, None]) & (present >= FEWEST_PEERS)[:, None]
    number = np.maximum(is_rest.sum(axis=1), 1)
    kept = np.where(is_rest, ordered, 0.0)
    mean = kept.sum(axis=1) / number
    squares = np.where(is_rest, (ordered - mean[:, None]) ** 2, 0.0).sum(axis=1)
    spread = np.sqrt(squares / np.maximum(number - 1, 1) * (1 + 1 / number))
    spread = np.maximum(spread, np.maximum(LEAST_ALIKE * np.abs(mean), noise)) + 1e-100
    is_beyond = ~is_rest & ~np.isnan(ordered) & (present >= FEWEST_PEERS)[:, None]
    apart = np.where(is_beyond, np.maximum(ordered - mean[:, None], 0.0) / spread[:, None], 0.0)
    carried = np.zeros((count, peers))
    np.put_along_axis(carried, order, apart, axis=1)
    return carried, mean, spread
