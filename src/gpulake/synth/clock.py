"""The trace's time: seconds of a fake 1970 whose local time (+08) keeps the true hour and weekday."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import numpy as np

from gpulake.core.pai import published
from gpulake.synth.draws import even

HOUR_SECONDS = 3600
DAY_SECONDS = 86_400
SHANGHAI = timezone(timedelta(hours=8))


def at(month: int, day: int, hour: int = 0) -> int:
    """The trace second of a local date of 1970."""
    return int(datetime(1970, month, day, hour, tzinfo=SHANGHAI).timestamp())


FIRST_SECOND = at(1, 25)  # a Sunday
LAST_SUBMISSION = at(3, 17)
HORIZON = at(3, 18)
"""What has not ended by now is still running."""

METRICS_FROM = at(1, 27, 14)  # midnight in the zone of the published daily figures (-06)
METRICS_TO = at(3, 17)  # so that 49 days show in that zone, in UTC and in Shanghai
ROLLOUT_TO = at(1, 30, 14)
"""Until then only the 2-GPU machines report, which is what the first three published days look like."""


def iso(second: int) -> str:
    return datetime.fromtimestamp(second, UTC).astimezone(SHANGHAI).isoformat()


def submissions(jobs: int, rng: np.random.Generator) -> np.ndarray:
    """Seconds at which jobs are submitted, in the rhythm of the day and the week, in random order."""
    rhythm = published()["rhythm"]
    hours = np.arange((LAST_SUBMISSION - FIRST_SECOND) // HOUR_SECONDS)
    days = hours // 24
    mood = np.exp(rng.normal(0.0, 0.06, days[-1] + 1))
    rate = np.array(rhythm["hour"])[hours % 24] * np.array(rhythm["weekday"])[days % 7] * mood[days]
    rate = rate * np.exp(rng.normal(0.0, 0.10, len(hours)))
    filled = np.concatenate([[0.0], np.cumsum(rate)]) / rate.sum()
    edges = FIRST_SECOND + HOUR_SECONDS * np.arange(len(hours) + 1)
    seconds = np.interp(even(jobs, rng), filled, edges).astype(np.int32)
    return rng.permutation(seconds)
