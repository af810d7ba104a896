"""NAB's score, standard profile: early is better, a false alarm costs a little, a missed window costs all of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from gpulake.detect.alarms import stretches, usual_gap
from gpulake.detect.series import Bools, Floats, Ints

FALSE_ALARM = 0.11
FAR = 3.0  # windows away, from where a false alarm costs all that it can
CANDIDATES = 200
LARGEST_SHARE, SMALLEST_SHARE = 0.5, 1e-5


@dataclass(frozen=True)
class Worth:
    """What flagging each point of a series is worth, given where its windows are (begin, end exclusive)."""

    window: Ints  # the window a point is in; -1: in none
    value: Floats
    windows: int


def worth(count: int, begins: Ints, ends: Ints) -> Worth:
    window, value = np.full(count, -1, dtype=np.int64), np.full(count, -1.0)
    following = np.append(begins, count)[1:]
    most = _sigmoid(np.array([-1.0]))[0]
    for number, (begin, end, after) in enumerate(zip(begins.tolist(), ends.tolist(), following.tolist(), strict=True)):
        width = end - begin
        inside = np.arange(begin, end)
        window[inside] = number
        value[inside] = _sigmoid(-(end - inside) / width) / most
        behind = np.arange(end, after)
        away = (behind - (end - 1)) / max(width - 1, 1)
        value[behind] = np.where(away > FAR, -1.0, _sigmoid(np.minimum(away, FAR)))
    return Worth(window, np.where(window < 0, value * FALSE_ALARM, value), len(begins))


def gained(points: Worth, is_flagged: Bools, interval_ms: int) -> float:
    """Windows found, the earlier the better, less windows missed and false alarms.

    One alarm is one message, however long it lasts, so its first point alone counts: neither does a long alarm cost
    more than a short one, nor does an alarm that never ends find anything.
    """
    firsts = np.array([first for first, _ in stretches(is_flagged, usual_gap(interval_ms))], dtype=np.int64)
    is_inside = points.window[firsts] >= 0
    outside, inside = float(points.value[firsts[~is_inside]].sum()), firsts[is_inside]
    # The first point of a window that is flagged is worth most; later ones add nothing.
    found, first = np.unique(points.window[inside], return_index=True)
    return outside + float(points.value[inside[first]].sum()) - (points.windows - len(found))


def normalised(gain: float, windows: int) -> float:
    """0: nothing was flagged; 100: every window at its first point, and nothing else. NaN: there are no windows."""
    return 100.0 * (gain + windows) / (2.0 * windows) if windows else float("nan")


def at_best(worths: Sequence[Worth], scores: Sequence[Floats], intervals_ms: Sequence[int]) -> float:
    """With the one threshold for all series that suits best, which is how NAB compares detectors."""
    pooled = np.sort(np.concatenate(scores))[::-1]
    shares = np.geomspace(SMALLEST_SHARE, LARGEST_SHARE, CANDIDATES)
    candidates = np.unique(pooled[np.minimum((shares * len(pooled)).astype(np.int64), len(pooled) - 1)])
    windows = sum(each.windows for each in worths)
    gains = [0.0 - windows]
    for threshold in candidates.tolist():
        series = zip(worths, scores, intervals_ms, strict=True)
        gains.append(sum(gained(each, score >= threshold, interval) for each, score, interval in series))
    return normalised(max(gains), windows)


def _sigmoid(position: Floats) -> Floats:
    return np.asarray(2.0 / (1.0 + np.exp(5.0 * position)) - 1.0)
