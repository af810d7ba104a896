"""What befell a training run, from the telemetry of its GPU and the times of its steps.

Everything is measured against the run's own calm past. Without step times only memory and an idle GPU are told of.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from gpulake.detect.alarms import stretches
from gpulake.detect.running import last_means
from gpulake.detect.series import Floats, Ints, Series

Kind = Literal[
    "leak", "memory_cliff", "starved", "checkpoint_storm", "cpu_pressure", "stopped", "neighbour", "small_batch"
]
NEEDED = ("gpu_util_ratio", "cpu_util_ratio", "memory_used_ratio")
CALM_KEPT, CALM_NEEDED = 200, 40
SETTLED_MS, STARVED_MS = 1_000, 10_000
JOINED_MS, LEAST_MS = 5_000, 2_000
LEAK_LEAST_MS = 400
LEAKED, FULL = 1.5, 0.95
BUSY, WORKS, STARVED = 0.05, 0.15, 0.1


@dataclass(frozen=True)
class Steps:
    """Of one run, in the order of time: when each step ended and how long it took."""

    ended_ms: Ints
    took_ms: Floats


@dataclass(frozen=True)
class Phase:
    """A stretch in which something was wrong, and what."""

    kind: Kind
    begin_ms: int
    end_ms: int
    detail: str


@dataclass(frozen=True)
class Moment:
    """What is known at one time."""

    gpu: float
    cpu: float
    waited_ms: float  # since the last step; NaN: there is none
    step_ms: float  # the mean of the last two seconds; NaN: none ended


@dataclass
class Calm:
    """The last moments at which nothing was wrong."""

    moments: deque[Moment] = field(default_factory=lambda: deque(maxlen=CALM_KEPT))

    def usual(self) -> Moment | None:
        if len(self.moments) < CALM_NEEDED:
            return None
        rows = np.array([(each.gpu, each.cpu, each.waited_ms, each.step_ms) for each in self.moments])
        gpu, cpu, waited, step = np.median(rows, axis=0).tolist()
        return Moment(gpu, cpu, waited, step)


def find_phases(telemetry: Series, steps: Steps | None = None) -> list[Phase]:
    """The telemetry has the metrics NEEDED, each a ratio of what there is."""
    gpu, cpu, memory = (telemetry.values[:, telemetry.metrics.index(name)] for name in NEEDED)
    found = list(_memory(telemetry, gpu, memory))
    if steps is None or not len(steps.ended_ms):
        return sorted([*found, *_starved(telemetry, gpu, memory)], key=lambda phase: phase.begin_ms)
    told = _troubles(telemetry, _mean(telemetry, gpu, 1_000), _mean(telemetry, cpu, 1_000), steps)
    found.extend(_joined(telemetry, told))
    return sorted(found, key=lambda phase: phase.begin_ms)


def _troubles(telemetry: Series, gpu: Floats, cpu: Floats, steps: Steps) -> list[Kind | None]:
    calm = Calm()
    told: list[Kind | None] = []
    usual = None
    for place, (moment_ms, gpu_now, cpu_now) in enumerate(
        zip(telemetry.times_ms.tolist(), gpu.tolist(), cpu.tolist(), strict=True)
    ):
        last = int(np.searchsorted(steps.ended_ms, moment_ms, side="right"))
        first = int(np.searchsorted(steps.ended_ms, moment_ms - 2_000, side="right"))
        waited = moment_ms - float(steps.ended_ms[last - 1]) if last else np.nan
        step = float(steps.took_ms[first:last].mean()) if last > first else np.nan
        now = Moment(gpu_now, cpu_now, waited, step)
        if usual is None or place % 10 == 0:
            usual = calm.usual()
        kind = _kind(now, usual) if usual is not None else None
        is_known = not np.isnan([now.gpu, now.cpu, waited, step]).any()
        if kind is None and is_known and now.gpu > BUSY:
            calm.moments.append(now)
        told.append(kind)
    return told


def _kind(now: Moment, usual: Moment) -> Kind | None:
    """One look; a stretch is called what most of its looks say."""
    if now.waited_ms > max(1_000.0, 10 * usual.step_ms):
        # Nothing moves. A host that works meanwhile writes or reads; one that does not was stopped.
        return "stopped" if now.cpu < 0.25 * usual.cpu else "checkpoint_storm"
    if now.cpu > min(0.9, usual.cpu + 0.5) and now.gpu < 0.8 * usual.gpu:
        return "cpu_pressure"
    if now.step_ms > 1.4 * usual.step_ms and now.gpu > 0.97 * usual.gpu:
        return "neighbour"
    if now.gpu < 0.7 * usual.gpu and now.step_ms < 1.1 * usual.step_ms:
        return "small_batch"
    return None


DETAILS: dict[Kind, str] = {
    "leak": "GPU memory grows although the run had settled",
    "memory_cliff": "GPU memory is all but full",
    "starved": "the GPU is held and waits: its data comes too slowly",
    "checkpoint_storm": "no step ends while the host works: it writes or reads",
    "cpu_pressure": "the host's cores are taken, and the GPU waits for them",
    "stopped": "no step ends, and neither host nor GPU works",
    "neighbour": "steps take longer although the GPU is fully used: somebody else uses it, too",
    "small_batch": "steps are as quick as ever and use less of the GPU",
}


def _joined(telemetry: Series, told: list[Kind | None]) -> Iterator[Phase]:
    gap = max(1, JOINED_MS // telemetry.interval_ms)
    is_told = np.array([kind is not None for kind in told], dtype=np.bool_)
    for first, last in zip(*(ends.tolist() for ends in stretches(is_told, gap)), strict=True):
        kinds = [kind for kind in told[first : last + 1] if kind is not None]
        if len(kinds) * telemetry.interval_ms >= LEAST_MS:
            yield _phase(telemetry, max(kinds, key=kinds.count), first, last)


def _memory(telemetry: Series, gpu: Floats, memory: Floats) -> Iterator[Phase]:
    """Growth after the run had settled, which is: memory stood still while the GPU worked."""
    settled = _settled(telemetry, gpu, memory)
    with np.errstate(invalid="ignore"):
        is_leak, is_full = memory > LEAKED * settled, memory >= FULL
    kinds: tuple[tuple[Kind, np.ndarray[tuple[int, ...], np.dtype[np.bool_]]], ...]
    kinds = (("leak", is_leak), ("memory_cliff", is_full))
    for kind, is_told in kinds:
        for first, last in zip(*(ends.tolist() for ends in stretches(is_told, 1)), strict=True):
            if telemetry.times_ms[last] - telemetry.times_ms[first] >= LEAK_LEAST_MS:
                yield _phase(telemetry, kind, first, last)


def _settled(telemetry: Series, gpu: Floats, memory: Floats) -> Floats:
    """The level at which memory last stood still while the GPU worked, before each point; NaN: it never did."""
    points = max(2, SETTLED_MS // telemetry.interval_ms)
    worked = _mean(telemetry, gpu, SETTLED_MS)
    level = np.full(len(memory), np.nan)
    last = np.nan
    still = 0
    for place, (now, busy) in enumerate(zip(memory.tolist(), worked.tolist(), strict=True)):
        level[place] = last
        still = still + 1 if place and now == memory[place - 1] else 0
        # What a leak has filled is not where the run settled; a run that ends lets go of everything.
        if still >= points and busy > WORKS and not now > LEAKED * last:
            last = now
        if now < 0.5 * last:
            last = np.nan
    return level


def _starved(telemetry: Series, gpu: Floats, memory: Floats) -> Iterator[Phase]:
    points = max(2, STARVED_MS // telemetry.interval_ms)
    held = float(np.nanmax(memory, initial=0.0)) / 2 if len(memory) else 0.0
    mean = _mean(telemetry, np.where(memory > held, gpu, np.nan), STARVED_MS)
    is_held = _mean(telemetry, (memory > held).astype(np.float64), STARVED_MS) == 1.0
    is_starved = is_held & (mean < STARVED) & (mean > 0) & (np.arange(len(gpu)) >= points)
    for first, last in zip(*(ends.tolist() for ends in stretches(is_starved, points)), strict=True):
        if telemetry.times_ms[last] - telemetry.times_ms[first] >= LEAST_MS:
            yield _phase(telemetry, "starved", first, last)


def _phase(telemetry: Series, kind: Kind, first: int, last: int) -> Phase:
    return Phase(kind, int(telemetry.times_ms[first]), int(telemetry.times_ms[last]), DETAILS[kind])


def _mean(telemetry: Series, values: Floats, over_ms: int) -> Floats:
    """Over the last points up to and with each."""
    points = max(1, over_ms // telemetry.interval_ms)
    return last_means(np.append(values, np.nan)[:, None], points)[1:, 0]
