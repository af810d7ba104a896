"""How long a job will run, from what had ended when it was submitted, and from nothing later."""

from __future__ import annotations

import heapq
import math
from collections import defaultdict, deque
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from gpulake.replay.kernel.arrays import Ints

LAST = 5  # runs of a group that count
WITHIN = 0.25  # of the true run time: the published measure


def past_only(
    submit: Ints, start: Ints, end: Ints, groups: Sequence[str], users: Sequence[str]
) -> tuple[Ints, NDArray[np.bool_]]:
    """Seconds, and whether there was a run to go by: of its group, else its user, else anyone. The middle of the last.

    Jobs are in the order of submission.
    """
    seen: dict[tuple[str, str], deque[int]] = defaultdict(lambda: deque(maxlen=LAST))
    ended: list[tuple[int, int]] = []
    predicted, is_known = np.ones(len(submit), np.int64), np.zeros(len(submit), np.bool_)
    for j in range(len(submit)):
        while ended and ended[0][0] <= submit[j]:
            _, other = heapq.heappop(ended)
            ran = int(end[other] - start[other])
            for key in (("group", groups[other]), ("user", users[other]), ("all", "")):
                seen[key].append(ran)
        for key in (("group", groups[j]), ("user", users[j]), ("all", "")):
            if found := seen.get(key):
                predicted[j], is_known[j] = sorted(found)[len(found) // 2], True
                break
        heapq.heappush(ended, (int(end[j]), j))
    return np.maximum(predicted, 1), is_known


def within_ratio(predicted: Ints, true: Ints, is_known: NDArray[np.bool_]) -> float:
    """The share of predictions within a quarter of the truth; NaN if there are none."""
    if not is_known.any():
        return math.nan
    return float((np.abs(predicted - true)[is_known] <= WITHIN * true[is_known]).mean())
