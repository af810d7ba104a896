"""Flagged points that follow each other are one alarm: one thing to tell a person."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gpulake.detect.series import Bools, Ints, Scores, Series

LEAST_GAP_POINTS = 10
LEAST_GAP_MS = 3_600_000
LEAST_SHARE = 0.1


@dataclass(frozen=True)
class Alarm:
    subject: str
    begin_ms: int
    end_ms: int
    peak_ms: int
    score: float  # at its peak
    carriers: tuple[str, ...]  # the metrics that carry a tenth of it or more, most first


def stretches(is_flagged: Bools, gap_points: int) -> tuple[Ints, Ints]:
    """First and last flagged point of each stretch; those so many points apart or less are one."""
    flagged = np.flatnonzero(is_flagged)
    if not len(flagged):
        return flagged, flagged
    is_first = np.append(True, np.diff(flagged) > gap_points)
    return flagged[is_first], flagged[np.append(is_first[1:], True)]


def usual_gap(interval_ms: int) -> int:
    """An hour, or ten points, whichever is longer."""
    return max(LEAST_GAP_POINTS, LEAST_GAP_MS // interval_ms)


def alarms_of(series: Series, scores: Scores, gap_points: int | None = None) -> list[Alarm]:
    gap = usual_gap(series.interval_ms) if gap_points is None else gap_points
    found = []
    for first, last in zip(*(ends.tolist() for ends in stretches(scores.is_flagged, gap)), strict=True):
        places = first + np.flatnonzero(scores.is_flagged[first : last + 1])
        peak = int(places[np.argmax(scores.score[places])])
        shares = scores.shares[places].mean(axis=0)
        order = np.argsort(-shares, kind="stable").tolist()
        found.append(
            Alarm(
                subject=series.subject,
                begin_ms=int(series.times_ms[first]),
                end_ms=int(series.times_ms[last]),
                peak_ms=int(series.times_ms[peak]),
                score=float(scores.score[peak]),
                carriers=tuple(series.metrics[place] for place in order if shares[place] >= LEAST_SHARE),
            )
        )
    return found
