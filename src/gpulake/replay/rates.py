"""Rates over time: stretches in which something was used at a rate, summed, shared and cut."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import groupby, pairwise
from math import fsum
from operator import itemgetter
from typing import NamedTuple


class Stretch(NamedTuple):
    """From a millisecond up to, and without, another."""

    begin: int
    end: int
    rate: float


class Slice(NamedTuple):
    begin: int
    end: int
    rate: float
    is_filled: bool  # no sample: the rate of the nearest stretch


@dataclass
class Rates:
    """The sum of stretches that may overlap. Where there is none, nothing is known."""

    stretches: list[Stretch] = field(default_factory=list)
    _edges: list[int] = field(default_factory=list)
    _values: list[float | None] = field(default_factory=list)  # from each edge up to the next

    def add(self, stretch: Stretch) -> None:
        if stretch.begin < stretch.end:
            self.stretches.append(stretch)
            self._edges = []

    def slices(self, begin: int, end: int) -> list[Slice]:
        """All of an interval, cut where the rate changes. Empty: nothing is known of any time at all."""
        self._settle()
        if not self._edges:
            return []
        cuts = [begin, *self._edges[bisect_right(self._edges, begin) : bisect_left(self._edges, end)], end]
        return [self._slice(one, other) for one, other in pairwise(cuts)]

    def is_known_in(self, begin: int, end: int) -> bool:
        return any(not piece.is_filled for piece in self.slices(begin, end))

    def _slice(self, begin: int, end: int) -> Slice:
        at = bisect_right(self._edges, begin) - 1
        value = self._values[at] if 0 <= at < len(self._values) else None
        return Slice(begin, end, self._nearest(at) if value is None else value, value is None)

    def _nearest(self, at: int) -> float:
        """Before the first stretch its rate, else that of the last one before."""
        for position in range(min(at, len(self._values) - 1), -1, -1):
            if (value := self._values[position]) is not None:
                return value
        return next((value for value in self._values if value is not None), 0.0)

    def _settle(self) -> None:
        if self._edges or not self.stretches:
            return
        events = sorted(
            (instant, is_begin, place)
            for place, stretch in enumerate(self.stretches)
            for instant, is_begin in ((stretch.begin, True), (stretch.end, False))
        )
        active: dict[int, float] = {}
        for instant, group in groupby(events, key=itemgetter(0)):
            for _, is_begin, place in group:
                if is_begin:
                    active[place] = self.stretches[place].rate
                else:
                    del active[place]
            self._edges.append(instant)
            # Summed anew: what is added and taken away again would leave a little behind.
            self._values.append(fsum(active.values()) if active else None)


class Together(NamedTuple):
    """A stretch in which the sum and the number of those that share it stay the same."""

    begin: int
    end: int
    rates: tuple[float, ...]
    is_filled: bool


def together(begin: int, end: int, sources: Sequence[Rates]) -> list[Together]:
    """Several rates over one interval, cut where any of them changes."""
    pieces = [source.slices(begin, end) for source in sources]
    edges = sorted({begin, end, *(piece.begin for source in pieces for piece in source)})
    places = [0] * len(pieces)
    found = []
    for one, other in pairwise(edges):
        rates = []
        is_filled = False
        for number, source in enumerate(pieces):
            while places[number] + 1 < len(source) and source[places[number] + 1].begin <= one:
                places[number] += 1
            piece = source[places[number]] if source else None
            rates.append(piece.rate if piece else 0.0)
            is_filled = is_filled or (number == 0 and piece is not None and piece.is_filled)
        found.append(Together(one, other, tuple(rates), is_filled))
    return found
