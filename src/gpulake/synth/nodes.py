"""What ran on a few nodes during half a day, GPU by GPU: what their telemetry is derived from."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gpulake.synth import clock
from gpulake.synth.draws import Ids, Ints, generator
from gpulake.synth.facts import GPU_TYPES, habits
from gpulake.synth.incidents import SLOW_TYPE
from gpulake.synth.trace import Trace
from gpulake.synth.usage import BACKGROUND_SHARE, Usage

BEGINS_AT = clock.at(3, 5, 8)  # a Thursday; the slow machine is slow by then
INTERVAL_SECONDS = 120
TICKS = 360
ENDS_AT = BEGINS_AT + TICKS * INTERVAL_SECONDS


@dataclass(frozen=True)
class Run:
    """An attempt on a node: its worker, from tick to tick, and what it uses."""

    worker: str
    name: str
    first: int
    last: int
    cores: float
    memory_gb: float


@dataclass(frozen=True)
class Node:
    """One machine; arrays are GPUs by ticks."""

    name: str
    gpu_type: str
    gpus: int
    cores: int
    memory_gb: int
    runs: list[Run]
    busy: NDArray[np.float64]
    memory_gib: NDArray[np.float64]
    holders: NDArray[np.int64]  # how many hold a GPU
    holder: NDArray[np.int64]  # the last of them, as its place among the runs

    @property
    def board(self) -> dict[str, float]:
        board: dict[str, float] = habits()["boards"][self.gpu_type]
        return board

    def uuid(self, index: int) -> str:
        return f"GPU-{self.name}-{index}"


def devices_of(row: Ints, cap: Ints, plan: Ints) -> NDArray[np.int64]:
    """The first GPU of a machine that an attempt has, which its sensor row names, too."""
    mixed = (np.asarray(row, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)) >> np.uint64(40)
    return (mixed % np.maximum(cap, 1).astype(np.uint64)).astype(np.int64) * (np.asarray(plan) > 0)


def observed_nodes(trace: Trace, usage: Usage, ids: Ids) -> list[Node]:
    """One machine of each GPU type: the one that held most in this time; of the slow machine's type, the slow one."""
    rows, machines = trace.rows, trace.population.machines
    near = np.flatnonzero((rows.machine >= 0) & (rows.started_at < ENDS_AT) & (rows.ended_at > BEGINS_AT))
    seconds = np.minimum(rows.ended_at[near], ENDS_AT) - np.maximum(rows.started_at[near], BEGINS_AT)
    held = np.bincount(
        rows.machine[near],
        weights=seconds * trace.population.tasks.plan_gpu[rows.task[near]],
        minlength=len(machines),
    )
    nodes = []
    for code in range(len(GPU_TYPES)):
        pool = machines.of_type(code)
        slow = trace.plan.slow if trace.plan and code == SLOW_TYPE else None
        chosen = int(pool[slow.machine if slow else held[pool].argmax()])
        nodes.append(_node(trace, usage, ids, chosen, near[rows.machine[near] == chosen]))
    return nodes


def _node(trace: Trace, usage: Usage, ids: Ids, machine: int, rows: NDArray[np.int64]) -> Node:
    people, machines = trace.population, trace.population.machines
    gpus = int(machines.cap_gpu[machine])
    rng = generator(trace.seed, 24, machine)
    # Services have every other GPU, so that the rest can be idle.
    serving = np.where(np.arange(gpus) % 2 == 0, 2 * BACKGROUND_SHARE.get(gpus, 0.0), 0.0)
    busy = serving[:, None] * (0.8 + 0.4 * rng.random((gpus, TICKS)))
    memory = np.where(serving > 0, 1.5, 0.0)[:, None] * np.ones((gpus, TICKS))
    holders, holder = np.zeros((gpus, TICKS), dtype=np.int64), np.full((gpus, TICKS), -1)
    runs = []
    plan = people.tasks.plan_gpu[trace.rows.task[rows]]
    for place, (row, first_device) in enumerate(
        zip(rows, devices_of(rows, np.full(len(rows), gpus), plan), strict=True)
    ):
        task = trace.rows.task[row]
        devices = (first_device + np.arange(-(-int(plan[place]) // 100))) % gpus
        first, last = (
            int(np.clip(-((BEGINS_AT - second) // INTERVAL_SECONDS), 0, TICKS))
            for second in (trace.rows.started_at[row], trace.rows.ended_at[row])
        )
        span = np.ix_(devices, np.arange(first, last))
        busy[span] += usage.gpu_percent[task] / 100 / max(len(devices), 1)
        memory[span] += usage.gpu_mem_gb[task] / max(len(devices), 1)
        holders[span] += 1
        holder[span] = place
        runs.append(
            Run(
                worker=ids.text("worker", int(trace.rows.worker[row])),
                name=list(habits()["roles"])[people.tasks.role[task]],
                first=first,
                last=last,
                cores=float(usage.cpu_percent[task]) / 100,
                memory_gb=float(usage.mem_gb[task]),
            )
        )
    noise = 1 + 0.05 * rng.standard_normal(busy.shape)
    return Node(
        name=ids.text("machine", machine),
        gpu_type=GPU_TYPES[machines.gpu_type[machine]],
        gpus=gpus,
        cores=int(machines.cap_cpu[machine]),
        memory_gb=int(machines.cap_mem[machine]),
        runs=runs,
        busy=np.clip(busy * noise, 0.0, 1.0),
        memory_gib=memory,
        holders=holders,
        holder=holder,
    )
