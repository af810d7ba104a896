"""Thresholds from the tail of a series' own past.

A statistic is counted in bins of its logarithm. Its tail is taken to fall as a power (Hill's estimate), so that a
threshold can lie where nothing was seen yet. Counts are all there is to keep: a series costs a few hundred bytes.
"""

from __future__ import annotations

import numpy as np

from gpulake.detect.series import Floats, Ints

LEAST, MOST = -12.0, 8.0  # of the natural logarithm
BINS = 160
WIDTH = (MOST - LEAST) / BINS
EDGES = LEAST + WIDTH * np.arange(1, BINS + 1)
TAIL = 0.05
LEAST_EXCESS = 0.3


def bins_of(values: Floats) -> Ints:
    logs = np.log(np.maximum(values, np.exp(LEAST)))
    return np.clip((logs - LEAST) / WIDTH, 0, BINS - 1).astype(np.int64)


def thresholds(counts: Floats, exceeded: float) -> Floats:
    """For each row of counts, the value that a share of points exceeds; infinite where nothing was counted."""
    total = counts.sum(axis=-1, keepdims=True)
    above = total - np.cumsum(counts, axis=-1)  # beyond each bin
    with np.errstate(invalid="ignore", divide="ignore"):
        is_tail = (above + counts) <= TAIL * total
        # The tail begins at the lower edge of the first bin that is all of it.
        begin = np.argmax(is_tail, axis=-1)
        begin = np.where(is_tail.any(axis=-1), begin, BINS)
        level = LEAST + WIDTH * begin
        weight = np.where(is_tail, counts, 0.0)
        middle = EDGES - WIDTH / 2
        seen = weight.sum(axis=-1)
        excess = (weight * np.maximum(middle - level[..., None], 0.0)).sum(axis=-1) / np.maximum(seen, 1.0)
        share = np.maximum(seen / total[..., 0], 1.0 / (total[..., 0] + 1.0))
        rise = np.maximum(excess, LEAST_EXCESS) * np.log(np.maximum(share / exceeded, 1.0))
        found = np.exp(np.minimum(level + rise, MOST))
    return np.asarray(np.where(total[..., 0] > 0, found, np.inf))
