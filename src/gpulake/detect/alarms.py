"""Alarms: flagged points close to each other are one alarm; and what watches say of one, in numbers and times."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from gpulake.detect.series import HOUR_MS, Bools, Ints, Scores, Series, utc

LEAST_GAP_POINTS = 10
LEAST_SHARE = 0.1
JOINED_MS = 6 * HOUR_MS
MOST_NAMES = 3


@dataclass(frozen=True)
class Alarm:
    begin_ms: int
    end_ms: int
    peak_ms: int
    score: float  # at its peak
    carriers: tuple[str, ...]  # metrics with a tenth of the score or more, the largest share first


@dataclass(frozen=True)
class Peak:
    """An alarm at its strongest point, in the metric with the largest share of it."""

    value: float
    expected: float
    flagged: int  # points of the alarm that were flagged

    @property
    def side(self) -> str:
        return "above" if self.value > self.expected else "below"


def stretches(is_flagged: Bools, gap_points: int) -> list[tuple[int, int]]:
    """First and last flagged point of each stretch; gaps of up to `gap_points` do not end one."""
    flagged = np.flatnonzero(is_flagged)
    if not len(flagged):
        return []
    is_first = np.append(True, np.diff(flagged) > gap_points)
    return list(zip(flagged[is_first].tolist(), flagged[np.append(is_first[1:], True)].tolist(), strict=True))


def usual_gap(interval_ms: int) -> int:
    """An hour, or ten points, whichever is longer."""
    return max(LEAST_GAP_POINTS, HOUR_MS // interval_ms)


def finding_gap(series: Series) -> int:
    """How many points an alarm of a watch may pause: the usual gap, but at most six hours, or one point of days."""
    return min(usual_gap(series.interval_ms), max(1, JOINED_MS // series.interval_ms))


def alarms_of(series: Series, scores: Scores, gap_points: int | None = None) -> list[Alarm]:
    gap = usual_gap(series.interval_ms) if gap_points is None else gap_points
    alarms = []
    for first, last in stretches(scores.is_flagged, gap):
        places = first + np.flatnonzero(scores.is_flagged[first : last + 1])
        peak = int(places[np.argmax(scores.score[places])])
        shares = scores.shares[places].mean(axis=0)
        order = np.argsort(-shares, kind="stable").tolist()
        alarms.append(
            Alarm(
                begin_ms=int(series.times_ms[first]),
                end_ms=int(series.times_ms[last]),
                peak_ms=int(series.times_ms[peak]),
                score=float(scores.score[peak]),
                carriers=tuple(series.metrics[place] for place in order if shares[place] >= LEAST_SHARE),
            )
        )
    return alarms


def peak_of(series: Series, scores: Scores, alarm: Alarm) -> Peak:
    here = int(np.searchsorted(series.times_ms, alarm.peak_ms))
    place = int(np.argmax(scores.shares[here]))
    value, expected = float(series.values[here, place]), float(scores.expected[here, place])
    return Peak(value, expected, int(flagged_points(series, scores, alarm).sum()))


def flagged_points(series: Series, scores: Scores, alarm: Alarm) -> Bools:
    is_within = (series.times_ms >= alarm.begin_ms) & (series.times_ms <= alarm.end_ms)
    return np.asarray(scores.is_flagged & is_within)


def places_of(series: Series, alarm: Alarm) -> tuple[int, int]:
    """The places of an alarm's first and last point."""
    places: Ints = np.searchsorted(series.times_ms, [alarm.begin_ms, alarm.end_ms])
    return int(places[0]), int(places[1])


def first_names(names: Sequence[str]) -> str:
    """The first few, and how many more."""
    more = f" and {len(names) - MOST_NAMES} more" if len(names) > MOST_NAMES else ""
    return ", ".join(names[:MOST_NAMES]) + more


def period(series: Series, alarm: Alarm) -> str:
    """`since …`, or `from … to …` of an alarm that is over."""
    if is_over(series, alarm):
        return f"from {time_text(alarm.begin_ms)} to {time_text(alarm.end_ms + series.interval_ms)}"
    return f"since {time_text(alarm.begin_ms)}"


def is_over(series: Series, alarm: Alarm) -> bool:
    """Whether the series continued without it for longer than an alarm may pause."""
    return len(series) - 1 - int(np.searchsorted(series.times_ms, alarm.end_ms)) > finding_gap(series)


def time_text(time_ms: int) -> str:
    return f"{utc(time_ms):%Y-%m-%d %H:%M} UTC"
