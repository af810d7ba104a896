"""How long a job usually takes from one step to the next, learned from its log."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from itertools import pairwise
from statistics import quantiles

from gpulake.core.diagnosis import Quote
from gpulake.diagnose.rulebook.rule import Hit
from gpulake.diagnose.story.lines import read_said

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
        """From here on silence counts, though there was no step yet."""
        self._last = at if self._last is None else self._last

    def begin_anew(self, at: float) -> None:
        """Another run loads and compiles first: that is no gap between two steps."""
        self._last = at

    def learn(self, steps: Sequence[tuple[Quote, Hit]]) -> None:
        """From the times that the lines tell: a log that is there already was not watched."""
        known = [told for quote, hit in steps if (told := _told(quote, hit)) is not None]
        moves = [(later[0] - sooner[0], later[1] - sooner[1]) for sooner, later in pairwise(known)]
        # Of many lines only some are kept: neighbours are those between which the counter moves least.
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
        # The longest of the usual: a checkpoint or an evaluation now and then is no stall.
        usual = quantiles(self._gaps, n=20)[-1]
        return max(LEAST_STALL_SECONDS, STALL_FACTOR * usual, 1.5 * self.longest)

    def silent_seconds(self, at: float) -> float:
        return 0.0 if self._last is None else at - self._last


def _told(quote: Quote, hit: Hit) -> tuple[float, float] | None:
    """How far the counter was, and when."""
    at = read_said(quote.text).at
    try:
        return (float(hit.words["step"]), at.timestamp()) if at is not None else None
    except (KeyError, ValueError):
        return None
