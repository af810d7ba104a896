"""What one invocation used, as fragments that cover all of it and never exceed its capacity: rates over time, summed,
shared and cut.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import groupby, pairwise
from math import fsum
from operator import itemgetter
from typing import NamedTuple

from gpulake.replay.workload import Fragment, Notes


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


# Ticks are hundredths of a second: a process that fills its cores looks a little busier now and then.
SLACK_CORES = 1e-6


class Measured(NamedTuple):
    begin: int
    end: int
    cpu: Rates | None  # cores in use by its process and that one's children
    gpu: Rates | None  # GPUs in use, likewise
    sharing: Rates | None  # how many invocations of the process were under way, this one among them
    cpu_ms: float | None
    gpus: int  # that its process had open


class Sizes(NamedTuple):
    core_mhz: float
    cores: int | None  # of the node
    gpu_mhz: float
    gpu_cores: int


@dataclass(frozen=True)
class Cut:
    fragments: list[Fragment]
    sharers: int  # at most, at once
    cpu_count: int
    gpu_count: int | None
    gpu_capacity_mhz: float | None


class Piece(NamedTuple):
    milliseconds: int
    cores: float
    gpus: float
    sharers: int  # invocations that the process was serving


def fragments_of(task_id: int, measured: Measured, sizes: Sizes, notes: Notes) -> Cut:
    pieces = _pieces(measured, notes)
    most = sizes.cores or math.inf
    if any(piece.cores > most + SLACK_CORES for piece in pieces):
        notes.inferred["usage above the cores of the node, cut to them"] += 1
    pieces = [piece._replace(cores=min(piece.cores, most), gpus=min(piece.gpus, measured.gpus)) for piece in pieces]
    peak = max(piece.cores for piece in pieces)
    cpu_count = max(1, math.ceil(peak - SLACK_CORES))
    has_gpus = measured.gpus > 0
    fragments = [
        Fragment(
            task_id,
            piece.milliseconds,
            min(piece.cores, cpu_count) * sizes.core_mhz,
            piece.gpus * sizes.gpu_mhz if has_gpus else None,
        )
        for piece in _joined(pieces)
    ]
    return Cut(
        fragments,
        max(piece.sharers for piece in pieces),
        cpu_count,
        measured.gpus * sizes.gpu_cores if has_gpus else None,
        measured.gpus * sizes.gpu_mhz if has_gpus else None,
    )


def _pieces(measured: Measured, notes: Notes) -> list[Piece]:
    begin, end = measured.begin, measured.end
    cpu, is_own = _cpu_rates(measured, notes)
    found = together(begin, end, [cpu, _gpu_rates(measured, notes), measured.sharing or Rates()])
    if any(each.rates[2] > 1 for each in found):
        notes.inferred["usage of a process that served several at once, shared by them"] += 1
    if any(each.is_filled for each in found):
        notes.inferred["usage where there is no sample: that of the nearest one"] += 1
    return [
        Piece(
            end - begin, cores if is_own else cores / max(1.0, number), gpus / max(1.0, number), max(1, round(number))
        )
        for begin, end, (cores, gpus, number), _ in found
    ]


def _cpu_rates(measured: Measured, notes: Notes) -> tuple[Rates, bool]:
    """Cores in use: of its process, or, without a sample, as traced."""
    cpu, begin, end = measured.cpu, measured.begin, measured.end
    if cpu is not None and cpu.is_known_in(begin, end):
        return cpu, False
    if measured.cpu_ms is not None and measured.cpu_ms >= 0:
        notes.inferred["usage, evenly, from the CPU time that was traced"] += 1
        return Rates([Stretch(begin, end, measured.cpu_ms / (end - begin))]), True
    if cpu is not None and cpu.stretches:
        return cpu, False
    notes.guessed["usage: one core, all of it, since nothing was measured"] += 1
    return Rates([Stretch(begin, end, 1.0)]), True


def _gpu_rates(measured: Measured, notes: Notes) -> Rates:
    if not measured.gpus:
        return Rates()
    hours = measured.gpus * (measured.end - measured.begin) / 3_600_000
    notes.gpu_hours += hours
    if measured.gpu is not None and measured.gpu.stretches:
        return measured.gpu
    notes.assumed_gpu_hours += hours
    notes.guessed["GPU usage: all of it, since nothing was measured"] += 1
    return Rates([Stretch(measured.begin, measured.end, float(measured.gpus))])


def _joined(pieces: Sequence[Piece]) -> list[Piece]:
    """Neighbours of the same usage are one."""
    joined: list[Piece] = []
    for piece in pieces:
        if joined and joined[-1][1:3] == piece[1:3]:
            joined[-1] = piece._replace(milliseconds=joined[-1].milliseconds + piece.milliseconds)
        else:
            joined.append(piece)
    return joined
