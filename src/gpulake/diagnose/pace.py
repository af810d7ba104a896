"""How long a job usually takes from one step to the next, learned from its log."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from itertools import pairwise
from statistics import quantiles

from gpulake.core.diagnosis import Quote
from gpulake.diagnose.rulebook.rule import Hit
from gpulake.diagnose.story.lines import parse_line

LEAST_STALL_SECONDS = 60.0
FIRST_STALL_SECONDS = 1800.0  # before the log has shown how often it makes progress
LEAST_GAPS = 8
MOST_GAPS = 500
STALL_FACTOR = 5.0  # of the longest gaps that were usual


class Pace:
    def __init__(self, fixed_seconds: float | None = None) -> None:
        self._fixed = fixed_seconds
        self._gaps: deque[float] = deque(maxlen=MOST_GAPS)
        self._last: float | None = None

    def step(self, at: float) -> None:
        if self._last is not None:
            self._gaps.append(at - self._last)
        self._last = at

    def begin(self, at: float) -> None:
        """Silence counts from here on, also before the first step."""
        self._last = at if self._last is None else self._last

    def reset(self, at: float) -> None:
        """A new run loads and compiles first, which is no gap between steps."""
        self._last = at

    def learn(self, steps: Sequence[tuple[Quote, Hit]]) -> None:
        """From the times in the lines, for a log that existed before it was followed."""
        known = [progress for quote, hit in steps if (progress := _progress_of(quote, hit)) is not None]
        moves = [(later[0] - sooner[0], later[1] - sooner[1]) for sooner, later in pairwise(known)]
        # Only some lines are kept: neighbours are those with the smallest step of the counter.
        least = min((move for move, _ in moves if move > 0), default=0.0)
        self._gaps.extend(seconds for move, seconds in moves if move == least and seconds >= 0)

    @property
    def longest(self) -> float | None:
        """None before it is known."""
        return max(self._gaps) if len(self._gaps) >= LEAST_GAPS else None

    @property
    def stall_seconds(self) -> float:
        if self._fixed is not None:
            return self._fixed
        if self.longest is None:
            return FIRST_STALL_SECONDS
        # The 95th percentile, so that an occasional checkpoint or evaluation is no stall.
        usual = quantiles(self._gaps, n=20)[-1]
        return max(LEAST_STALL_SECONDS, STALL_FACTOR * usual, 1.5 * self.longest)

    def silent_seconds(self, at: float) -> float:
        return 0.0 if self._last is None else at - self._last


def _progress_of(quote: Quote, hit: Hit) -> tuple[float, float] | None:
    """The counter and its time."""
    at = parse_line(quote.text).at
    try:
        return (float(hit.words["step"]), at.timestamp()) if at is not None else None
    except (KeyError, ValueError):
        return None
