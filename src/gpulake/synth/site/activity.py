"""What every GPU does at every tick, some hours at a time, and what that adds up to for each job."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gpulake.synth.draws import generator
from gpulake.synth.site.plan import Plan
from gpulake.synth.site.schedule import History, Run

INSTANTS = 200_000  # GPUs times ticks of a stretch
NOBODY = -1
IDLE, POWER_CAP, POWER_BRAKE, HEAT = 0x1, 0x4, 0x80, 0x40  # NVML's reasons for lower clocks
ROOM_CELSIUS = 29.0

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@dataclass(frozen=True)
class Part:
    """What a run holds of one node."""

    run: Run
    node: int
    devices: tuple[int, ...]


@dataclass
class Use:
    """By part: GPU-seconds that were used, those that samples cover, and such samples: the last of all covers none."""

    used_seconds: Floats
    seen_seconds: Floats
    samples: Ints


@dataclass(frozen=True)
class Stretch:
    """GPUs by ticks."""

    times: Ints
    holder: Ints  # the part that holds it, or NOBODY
    busy: Floats
    values: dict[str, Floats]  # by DCGM's name
    is_scraped: NDArray[np.bool_]


def parts_of(history: History) -> list[Part]:
    return [
        Part(run, node, devices)
        for run in history.runs
        for node, devices in zip(run.nodes, run.devices, strict=True)
        if devices
    ]


class Activity:
    def __init__(self, plan: Plan, history: History, parts: list[Part]) -> None:
        self._plan, self._outages, self._parts = plan, history.outages, parts
        site = plan.site
        self._rows = site.nodes * site.gpus
        self._begin = np.array([part.run.started_at for part in parts], dtype=np.int64)
        self._end = np.array([part.run.ended_at or site.ends_at for part in parts], dtype=np.int64)
        # Before its first tick a part does what it usually does.
        early = np.minimum(-(-self._begin // site.interval_seconds) * site.interval_seconds, self._end) - self._begin
        usual = np.array([sum(_level(part, device) for device in part.devices) for part in parts])
        self.use = Use(early * usual, np.zeros(len(parts)), np.zeros(len(parts), dtype=np.int64))

    def stretches(self) -> Iterator[Stretch]:
        """In the order of time; none goes beyond a day. When all were taken, the use is complete."""
        site = self._plan.site
        step = site.interval_seconds
        most = max(1, INSTANTS // self._rows) * step
        first = site.begins_at
        while first < site.ends_at:
            last = min(first + most, (first // 86_400 + 1) * 86_400, site.ends_at)
            times = np.arange(-(-first // step) * step, last, step, dtype=np.int64)
            if len(times):
                yield self._stretch(times)
            first = last

    def _stretch(self, times: Ints) -> Stretch:
        site, step = self._plan.site, self._plan.site.interval_seconds
        rng = generator(site.seed, 44, int(times[0]))
        holder = np.full((self._rows, len(times)), NOBODY, dtype=np.int64)
        busy, memory = np.zeros(holder.shape), np.zeros(holder.shape)
        for place in np.flatnonzero((self._begin <= times[-1]) & (self._end > times[0])):
            part = self._parts[place]
            first, last = np.searchsorted(times, (self._begin[place], self._end[place]))
            for device in part.devices:
                row = part.node * site.gpus + device
                holder[row, first:last] = place
                busy[row, first:last] = _level(part, device)
                memory[row, first:last] = part.run.request.memory
        busy = np.clip(busy + 0.25 * busy * (1 - busy) * rng.standard_normal(busy.shape), 0.0, 1.0)
        is_scraped = self.is_scraped(times)
        held = holder >= 0
        lasts = np.minimum(step, self._end[holder[held]] - np.broadcast_to(times, holder.shape)[held])
        count = len(self._parts)
        self.use.used_seconds += np.bincount(holder[held], weights=busy[held] * lasts, minlength=count)
        is_seen = (is_scraped & (times < site.ends_at - step))[held]
        self.use.seen_seconds += np.bincount(holder[held], weights=is_seen * lasts, minlength=count)
        self.use.samples += np.bincount(holder[held][is_seen], minlength=count)
        return Stretch(times, holder, busy, self._values(times, busy, memory, rng), is_scraped)

    def is_scraped(self, times: Ints) -> NDArray[np.bool_]:
        site = self._plan.site
        scraped = np.ones((self._rows, len(times)), dtype=np.bool_)
        for outage in self._outages:
            if outage.is_silent:
                is_out = (times >= outage.started_at) & (times < outage.ended_at)
                scraped[outage.node * site.gpus : (outage.node + 1) * site.gpus, is_out] = False
        for first, last in self._plan.gaps:
            scraped[:, (times >= first) & (times < last)] = False
        return scraped

    def _values(self, times: Ints, busy: Floats, memory: Floats, rng: np.random.Generator) -> dict[str, Floats]:
        site, board = self._plan.site, self._plan.site.board
        is_hot, is_held_back = self._spell("hot_node", times), self._spell("throttled_row", times)
        load = busy**0.8 * np.where(is_held_back, 0.5, 0.95)
        watts = board["idle_watts"] + (board["busy_watts"] - board["idle_watts"]) * load
        by_node = load.reshape(site.nodes, site.gpus, -1).mean(axis=1).repeat(site.gpus, axis=0)
        room = board["slowdown_celsius"] - 20 - ROOM_CELSIUS
        celsius = ROOM_CELSIUS + room * (0.7 * load + 0.3 * by_node) + rng.normal(0.0, 0.7, load.shape)
        celsius = np.where(is_hot, board["slowdown_celsius"] + 5 + rng.integers(0, 3, load.shape), celsius)
        is_busy = busy > 0
        clock = np.where(is_busy, np.where(is_hot | is_held_back, 0.42, 1.0), 0.18) * board["megahertz"]
        reasons = np.where(is_held_back, POWER_BRAKE, np.where(is_hot, HEAT, np.where(is_busy, 0, IDLE)))
        used = np.rint(memory * board["memory_mib"]) + 4
        return {
            "DCGM_FI_DEV_GPU_UTIL": np.rint(100 * busy),
            "DCGM_FI_DEV_FB_USED": used,
            "DCGM_FI_DEV_FB_FREE": board["memory_mib"] - used,
            "DCGM_FI_DEV_GPU_TEMP": np.rint(celsius),
            "DCGM_FI_DEV_POWER_USAGE": np.rint(watts),
            "DCGM_FI_DEV_SM_CLOCK": np.rint(clock / 15) * 15,
            "DCGM_FI_DEV_CLOCKS_EVENT_REASONS": reasons.astype(float),
        }

    def _spell(self, kind: str, times: Ints) -> NDArray[np.bool_]:
        site = self._plan.site
        spell = np.zeros((self._rows, len(times)), dtype=np.bool_)
        for incident in self._plan.of_kind(kind):
            is_now = (times >= incident.first_second) & (times < incident.last_second)
            for node in incident.nodes:
                spell[node * site.gpus : (node + 1) * site.gpus, is_now] = True
        return spell


def _level(part: Part, device: int) -> float:
    """Ranks of a job are never quite alike."""
    request = part.run.request
    return request.busy * (1 - 0.06 * ((request.number * 7 + device * 3) % 11) / 10)
