"""The alarms at the shipped threshold: events found, how late, and false alarms."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bench.scoring.curves import events
from gpulake.detect.alarms import stretches, usual_gap
from gpulake.detect.series import DAY_MS, Bools


@dataclass(frozen=True)
class AlarmCounts:
    events: int
    found: int
    false_alarms: int
    days: float
    delays_ms: tuple[int, ...]


def count_alarms(is_labelled: Bools, is_flagged: Bools, interval_ms: int) -> AlarmCounts:
    begins, ends = events(is_labelled)
    delays = []
    for begin, end in zip(begins.tolist(), ends.tolist(), strict=True):
        inside = np.flatnonzero(is_flagged[begin:end])
        if len(inside):
            delays.append(int(inside[0]) * interval_ms)
    alarms = stretches(is_flagged, usual_gap(interval_ms))
    false = sum(not is_labelled[first : last + 1].any() for first, last in alarms)
    return AlarmCounts(len(begins), len(delays), false, len(is_labelled) * interval_ms / DAY_MS, tuple(delays))
