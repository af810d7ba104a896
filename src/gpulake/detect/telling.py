"""What watches say alike: the numbers of an alarm, and times as people read them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import numpy as np

from gpulake.detect.alarms import Alarm, usual_gap
from gpulake.detect.series import Bools, Scores, Series

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
JOINED_MS = 6 * 3_600_000
MOST_NAMED = 3


@dataclass(frozen=True)
class Peak:
    """An alarm at its strongest point, in the metric that carries the most of it."""

    metric: str
    value: float
    expected: float
    flagged: int  # points of the alarm that were flagged

    @property
    def side(self) -> str:
        return "above" if self.value > self.expected else "below"


def peak(series: Series, scores: Scores, alarm: Alarm) -> Peak:
    here = int(np.searchsorted(series.times_ms, alarm.peak_ms))
    place = int(np.argmax(scores.shares[here]))
    value, expected = float(series.values[here, place]), float(scores.expected[here, place])
    return Peak(series.metrics[place], value, expected, int(flagged(series, scores, alarm).sum()))


def flagged(series: Series, scores: Scores, alarm: Alarm) -> Bools:
    """The points of an alarm that were flagged."""
    is_within = (series.times_ms >= alarm.begin_ms) & (series.times_ms <= alarm.end_ms)
    return np.asarray(scores.is_flagged & is_within)


def named(names: Sequence[str]) -> str:
    """The first few, and how many more."""
    more = f" and {len(names) - MOST_NAMED} more" if len(names) > MOST_NAMED else ""
    return ", ".join(names[:MOST_NAMED]) + more


def at(moment_ms: int) -> datetime:
    return EPOCH + timedelta(milliseconds=moment_ms)


def when(series: Series, alarm: Alarm) -> str:
    """Since when; up to when as well, once the series has gone on without it for longer than an alarm may pause."""
    if is_over(series, alarm):
        return f"from {moment(alarm.begin_ms)} to {moment(alarm.end_ms + series.interval_ms)}"
    return f"since {moment(alarm.begin_ms)}"


def is_over(series: Series, alarm: Alarm) -> bool:
    return len(series) - 1 - int(np.searchsorted(series.times_ms, alarm.end_ms)) > gap_of(series)


def gap_of(series: Series) -> int:
    """As many points as an alarm may pause: as usual, but of hours six and of days one."""
    return min(usual_gap(series.interval_ms), max(1, JOINED_MS // series.interval_ms))


def moment(moment_ms: int) -> str:
    return f"{at(moment_ms):%Y-%m-%d %H:%M} UTC"
