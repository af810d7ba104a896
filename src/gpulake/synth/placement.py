"""Machines, the published inventory at the scale of the trace; and which of them an attempt runs on.

Time is cut into slots of two minutes. Attempts that start in a slot go, largest request first, to machines of their
type with room; room comes back in the slot after an attempt ends, so a machine never holds more than it has, unless no
machine of the type has room. Then the least loaded one is over-committed, because the starts are given: they carry the
published waits. A few machines of the 8-GPU types are kept for requests of half a machine and more.

Measured (seed 0): of 100,000 jobs instances hold 31 % (T4), 57 % (MISC), 20 % (P100), 33 % (V100) and 22 % (V100M32) of
a type's GPU time, 36 % of all; machines hold more than they have for 0.5 % of the time. A small trace has gangs larger
than a whole type, which ask for slices: of 20,000 jobs instances hold 28 %, with 0.8 % of the time over-committed.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from gpulake.core.pai import published
from gpulake.synth.clock import FIRST_SECOND
from gpulake.synth.facts import TYPES


@dataclass(frozen=True)
class Machines:
    """One entry per machine; the machines of a GPU type are neighbours."""

    gpu_type: NDArray[np.int8]
    cap_cpu: NDArray[np.int32]
    cap_mem: NDArray[np.int32]
    cap_gpu: NDArray[np.int32]

    def __len__(self) -> int:
        return len(self.gpu_type)

    def of_type(self, code: int) -> NDArray[np.int64]:
        return np.flatnonzero(self.gpu_type == code)

    def gpus_by_type(self) -> NDArray[np.int64]:
        return np.bincount(self.gpu_type, weights=self.cap_gpu, minlength=len(TYPES)).astype(np.int64)


def inventory(jobs: int) -> Machines:
    """Machines in proportion to the jobs, so that load looks alike at every scale, and at least one of each class."""
    scale = jobs / published()["counts"]["jobs"]
    classes = published()["machines"]
    share = [entry["count"] * scale for entry in classes]
    # Rounding one and a half machines down would leave a third too few.
    count = [round(exact) if exact >= 2 else math.ceil(exact) for exact in share]

    def column(key: str) -> NDArray[np.int32]:
        return np.repeat(np.array([entry[key] for entry in classes], dtype=np.int32), count)

    types = np.array([TYPES.index(entry["gpu_type"]) for entry in classes], dtype=np.int8)
    return Machines(np.repeat(types, count), column("cap_cpu"), column("cap_mem"), column("cap_gpu"))


SLOT_SECONDS = 120
LARGE_PLAN = 400
KEPT_SHARE = 0.2
MOST_AT_ONCE = 4
CLOSED = 10**6


@dataclass(frozen=True)
class Closure:
    """Machines of a pool, by their place in it, that take nothing between two seconds."""

    machines: NDArray[np.int64]
    first_second: int
    last_second: int


@dataclass(frozen=True)
class Drag:
    """A machine of a pool on which everything that starts between two seconds takes longer."""

    machine: int
    first_second: int
    last_second: int
    factor: float


def slot_of(second: int) -> int:
    return (second - FIRST_SECOND) // SLOT_SECONDS


@dataclass
class Pool:
    """The machines of one GPU type, while they are being filled."""

    cap_percent: NDArray[np.int64]
    release: NDArray[np.int32]
    free: NDArray[np.int64] = field(init=False)
    slot: int = 0
    turn: int = 0

    def __post_init__(self) -> None:
        self.free = self.cap_percent.copy()
        has_kept = self.cap_percent.max() > LARGE_PLAN and len(self.free) > 1
        kept = max(1, int(len(self.free) * KEPT_SHARE)) if has_kept else 0
        self.common = len(self.free) - kept

    def advance(self, slot: int) -> None:
        if slot == self.slot + 1:
            self.free += self.release[slot]
        elif slot > self.slot:
            self.free += self.release[self.slot + 1 : slot + 1].sum(axis=0)
        self.slot = max(slot, self.slot)

    def take(self, plan: int, count: int) -> NDArray[np.int64]:
        """Machines for so many attempts of one plan; their room is taken."""
        self.turn += 1
        machines = self._with_room(plan, count)
        if len(machines) < count:
            taken = np.bincount(machines, minlength=len(self.free)) * plan
            left = self.free - taken
            is_open = left > -CLOSED // 2
            least_loaded = np.argsort(-left, kind="stable")[: np.count_nonzero(is_open)]
            machines = np.concatenate([machines, np.resize(least_loaded, count - len(machines))])
        if count == 1:
            self.free[machines[0]] -= plan
        else:
            np.subtract.at(self.free, machines, plan)
        return machines

    def _with_room(self, plan: int, count: int) -> NDArray[np.int64]:
        fitting = (self.free >= plan).nonzero()[0]
        if plan >= LARGE_PLAN:
            return fitting[::-1][:count]
        common = fitting[: fitting.searchsorted(self.common)]
        if count == 1:
            choice = common if len(common) else fitting
            return choice[self.turn % len(choice) :][:1] if len(choice) else choice
        for choice, limit in ((common, MOST_AT_ONCE), (common, CLOSED), (fitting, CLOSED)):
            room = np.minimum(self.free[choice] // plan, limit)
            if room.sum() >= count:
                start = self.turn % len(choice)
                turned = np.concatenate([choice[start:], choice[:start]])
                return np.repeat(turned, np.minimum(self.free[turned] // plan, limit))[:count]
        return np.repeat(fitting, self.free[fitting] // plan)[:count]


def place(
    started_at: NDArray[np.int32],
    ended_at: NDArray[np.int32],
    plan: NDArray[np.int32],
    cap_percent: NDArray[np.int64],
    *,
    closure: Closure | None = None,
    drag: Drag | None = None,
) -> NDArray[np.int16]:
    """The place in the pool of every attempt. With a drag, ended_at is moved for the attempts on that machine."""
    latest = ended_at if drag is None else started_at + (ended_at - started_at) * np.maximum(drag.factor, 1.0)
    slots = slot_of(int(latest.max(initial=FIRST_SECOND))) + 2
    pool = Pool(cap_percent, np.zeros((slots, len(cap_percent)), dtype=np.int32))
    if closure is not None:
        for second, sign in ((closure.first_second, -1), (closure.last_second, 1)):
            pool.release[min(slot_of(second), len(pool.release) - 1), closure.machines] += sign * CLOSED
    slot = (started_at - FIRST_SECOND) // SLOT_SECONDS
    key = slot.astype(np.int64) * 1024 + (1000 - plan)
    order = np.argsort(key, kind="stable")
    edges = np.flatnonzero(np.diff(key[order], prepend=-1, append=-1))
    chosen = np.empty(len(order), dtype=np.int16)
    firsts = order[edges[:-1]]
    groups = (edges[:-1].tolist(), edges[1:].tolist(), slot[firsts].tolist(), plan[firsts].tolist())
    for low, high, at, wanted in zip(*groups, strict=True):
        rows = order[low:high]
        pool.advance(at)
        machines = pool.take(wanted, high - low)
        chosen[rows] = machines
        if drag is not None:
            _slow_down(rows[machines == drag.machine], started_at, ended_at, drag)
        back = -((FIRST_SECOND - ended_at[rows]) // SLOT_SECONDS)
        if high - low == 1:  # which is most of them, and np.add.at is slow to begin
            pool.release[back[0], machines[0]] += wanted
        else:
            np.add.at(pool.release, (back, machines), wanted)
    return chosen


def _slow_down(rows: NDArray[np.int64], started_at: NDArray[np.int32], ended_at: NDArray[np.int32], drag: Drag) -> None:
    late = rows[(started_at[rows] >= drag.first_second) & (started_at[rows] < drag.last_second)]
    ended_at[late] = started_at[late] + ((ended_at[late] - started_at[late]) * drag.factor).astype(np.int32)
