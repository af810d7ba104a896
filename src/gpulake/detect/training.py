"""Phases of a training run in which something was wrong, from the telemetry of its GPU and the times of its steps.

Everything is compared with earlier moments of the same run. Without step times only memory and an idle GPU are judged;
without samples of the host, its cores are not.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from math import isnan
from statistics import median
from typing import Literal

import numpy as np

from gpulake.detect.alarms import stretches
from gpulake.detect.series import Bools, Floats, Ints, Series
from gpulake.detect.trailing import trailing_means

Kind = Literal[
    "leak", "memory_cliff", "starved", "checkpoint_storm", "cpu_pressure", "stopped", "neighbour", "small_batch"
]
NEEDED = ("gpu_util_ratio", "cpu_util_ratio", "memory_used_ratio")
CALM_KEPT, CALM_NEEDED = 200, 40
SETTLED_MS, STARVED_MS = 1_000, 10_000
JOINED_MS, LEAST_MS, LEAST_LOOKS = 5_000, 2_000, 3
LEAK_LEAST_MS = 400
ENDED_MS = 10_000
LEAKED, FULL = 1.5, 0.95
HELD = 0.01  # of a GPU's memory: less is the driver's
STEADY = 5  # usual steps: a longer pause is not a slow step
BUSY, WORKS, STARVED = 0.05, 0.15, 0.1


@dataclass(frozen=True)
class Steps:
    """The steps of one run, in the order of time: when each ended and how long it took."""

    ended_ms: Ints
    took_ms: Floats


@dataclass(frozen=True)
class Phase:
    """A time in which something was wrong, and what."""

    kind: Kind
    begin_ms: int
    end_ms: int


@dataclass(frozen=True)
class Moment:
    """The measurements at one time."""

    gpu: float
    cpu: float
    waited_ms: float  # since the last step; NaN: no step yet
    step_ms: float  # median of the last two seconds, or the last step; NaN: no step yet
    paused_ms: float  # the longest time between two steps that reaches into the last two seconds


@dataclass
class Calm:
    """The last moments without trouble."""

    moments: deque[Moment] = field(default_factory=lambda: deque(maxlen=CALM_KEPT))

    def usual(self) -> Moment | None:
        if len(self.moments) < CALM_NEEDED:
            return None
        rows = np.array([(each.gpu, each.cpu, each.waited_ms, each.step_ms, each.paused_ms) for each in self.moments])
        return Moment(*np.median(rows, axis=0).tolist())  # NaN: the host is not sampled


def find_phases(telemetry: Series, steps: Steps | None = None) -> list[Phase]:
    """The telemetry has the metrics NEEDED, each a ratio of the capacity."""
    gpu, cpu, memory = (telemetry.values[:, telemetry.metrics.index(name)] for name in NEEDED)
    phases = list(_memory(telemetry, gpu, memory))
    starved = list(_starved(telemetry, gpu, memory))
    if steps is not None and len(steps.ended_ms):
        # A GPU may pause within a long step: it is averaged over two steps.
        step_ms = int(np.median(steps.took_ms))
        over_ms = max(1_000, 2 * step_ms)
        kinds = _troubles(telemetry, _mean(telemetry, gpu, over_ms), _mean(telemetry, cpu, over_ms), memory, steps)
        troubles = list(_joined(telemetry, kinds, max(LEAST_MS, 2 * step_ms)))
        phases.extend(troubles)
        starved = [phase for phase in starved if not any(_overlap(phase, other) for other in troubles)]
    return sorted([*phases, *starved], key=lambda phase: phase.begin_ms)


def _overlap(one: Phase, other: Phase) -> bool:
    return one.begin_ms <= other.end_ms and other.begin_ms <= one.end_ms


def _troubles(telemetry: Series, gpu: Floats, cpu: Floats, memory: Floats, steps: Steps) -> list[Kind | None]:
    calm = Calm()
    kinds: list[Kind | None] = []
    usual, held, seen = None, np.nan, 0
    for place, (last, now) in enumerate(_moments(telemetry, gpu, cpu, steps)):
        if last > seen:
            held, seen = float(memory[place]), last
        elif memory[place] < 0.5 * held:
            held = np.inf  # memory was released: the run is over, until there is another step
        if usual is None or place % 10 == 0:
            usual = calm.usual()
        # After its last step a run has ten seconds to save and exit.
        is_ending = last == len(steps.ended_ms) and now.waited_ms < ENDED_MS
        is_judged = held < np.inf or isnan(held)
        kind = _kind(now, usual) if usual is not None and is_judged and not is_ending else None
        is_known = not (isnan(now.gpu) or isnan(now.waited_ms) or isnan(now.step_ms))
        if kind is None and is_known and is_judged and now.gpu > BUSY:
            calm.moments.append(now)
        kinds.append(kind)
    return kinds


def _moments(telemetry: Series, gpu: Floats, cpu: Floats, steps: Steps) -> Iterator[tuple[int, Moment]]:
    """Each with the number of steps that had ended by then."""
    ended = steps.ended_ms
    firsts = np.searchsorted(ended, telemetry.times_ms - 2_000, side="right").tolist()
    lasts = np.searchsorted(ended, telemetry.times_ms, side="right").tolist()
    gaps = np.diff(ended, prepend=ended[:1]).tolist()
    took = steps.took_ms.tolist()
    for place, (first, last) in enumerate(zip(firsts, lasts, strict=True)):
        seen = slice(min(first, last - 1), last)
        waited = float(telemetry.times_ms[place] - ended[last - 1]) if last else np.nan
        step = median(took[seen]) if last else np.nan
        paused = max(waited, *gaps[seen]) if last else np.nan
        yield last, Moment(float(gpu[place]), float(cpu[place]), waited, step, paused)


def _kind(now: Moment, usual: Moment) -> Kind | None:
    """The kind of one moment; a phase has the kind of most of its moments."""
    if now.waited_ms > max(1_000.0, 10 * usual.step_ms):
        # No step ends. If the host is busy, it reads or writes; if not, the run was stopped.
        return "checkpoint_storm" if now.cpu >= 0.25 * usual.cpu else "stopped"
    if now.cpu > min(0.9, usual.cpu + 0.5) and now.gpu < 0.8 * usual.gpu:
        return "cpu_pressure"
    if now.paused_ms > STEADY * max(usual.step_ms, usual.paused_ms):
        return None
    if now.step_ms > 1.4 * usual.step_ms and now.gpu > 0.97 * usual.gpu:
        return "neighbour"
    if now.gpu < 0.7 * usual.gpu and now.step_ms < 1.1 * usual.step_ms:
        return "small_batch"
    return None


def _joined(telemetry: Series, kinds: list[Kind | None], least_ms: int) -> Iterator[Phase]:
    gap = max(1, JOINED_MS // telemetry.interval_ms)
    is_trouble = np.array([kind is not None for kind in kinds], dtype=np.bool_)
    for first, last in stretches(is_trouble, gap):
        here = [kind for kind in kinds[first : last + 1] if kind is not None]
        if len(here) >= LEAST_LOOKS and len(here) * telemetry.interval_ms >= least_ms:
            yield _phase(telemetry, max(here, key=here.count), first, last)


def _memory(telemetry: Series, gpu: Floats, memory: Floats) -> Iterator[Phase]:
    """Growth after the run had settled: memory was constant while the GPU worked."""
    settled = _settled(telemetry, gpu, memory)
    with np.errstate(invalid="ignore"):
        is_leak, is_full = memory > LEAKED * settled, memory >= FULL
    kinds: tuple[tuple[Kind, Bools], ...] = (("leak", is_leak), ("memory_cliff", is_full))
    for kind, is_here in kinds:
        for first, last in stretches(is_here, 1):
            if telemetry.times_ms[last] - telemetry.times_ms[first] >= LEAK_LEAST_MS:
                yield _phase(telemetry, kind, first, last)


def _settled(telemetry: Series, gpu: Floats, memory: Floats) -> Floats:
    """The level at which memory was last constant while the GPU worked, before each point; NaN: never yet."""
    points = max(2, SETTLED_MS // telemetry.interval_ms)
    worked = _mean(telemetry, gpu, SETTLED_MS)
    level = np.full(len(memory), np.nan)
    last = np.nan
    still = 0
    for place, (now, busy) in enumerate(zip(memory.tolist(), worked.tolist(), strict=True)):
        level[place] = last
        still = still + 1 if place and now == memory[place - 1] else 0
        # A level reached by a leak does not count; a run that ends releases its memory.
        if still >= points and busy > WORKS and now > HELD and not now > LEAKED * last:
            last = now
        if now < 0.5 * last:
            last = np.nan
    return level


def _starved(telemetry: Series, gpu: Floats, memory: Floats) -> Iterator[Phase]:
    points = max(2, STARVED_MS // telemetry.interval_ms)
    held = np.maximum(_peaks(memory) / 2, HELD)
    mean = _mean(telemetry, np.where(memory > held, gpu, np.nan), STARVED_MS)
    is_held = _mean(telemetry, (memory > held).astype(np.float64), STARVED_MS) == 1.0
    is_starved = is_held & (mean < STARVED) & (mean > 0) & (np.arange(len(gpu)) >= points)
    for first, last in stretches(is_starved, points):
        if telemetry.times_ms[last] - telemetry.times_ms[first] >= LEAST_MS:
            # The mean at the first point is of the points before it.
            yield _phase(telemetry, "starved", max(0, first - points + 1), last)


def _peaks(memory: Floats) -> Floats:
    """The peak memory of the run of each point; a run that releases half of its memory is over."""
    peaks = np.zeros(len(memory))
    begin, peak = 0, 0.0
    for place, now in enumerate(memory.tolist()):
        if now < 0.5 * peak:
            peaks[begin:place] = peak
            begin, peak = place, 0.0
        peak = max(peak, now) if now == now else peak
    peaks[begin:] = peak
    return peaks


def _phase(telemetry: Series, kind: Kind, first: int, last: int) -> Phase:
    return Phase(kind, int(telemetry.times_ms[first]), int(telemetry.times_ms[last]))


def _mean(telemetry: Series, values: Floats, over_ms: int) -> Floats:
    """Over the last points up to and including each."""
    points = max(1, over_ms // telemetry.interval_ms)
    return trailing_means(np.append(values, np.nan)[:, None], points)[1:, 0]
