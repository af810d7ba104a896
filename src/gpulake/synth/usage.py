"""Usage: the part of their request that instances use, and what a machine did, on average, while one ran on it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpulake.core.pai import published
from gpulake.synth import clock
from gpulake.synth.draws import Curve, even, generator, ranks, sums_by
from gpulake.synth.facts import GPU_TYPES, TERMINATED, curve, habits, scaled
from gpulake.synth.trace import Trace

BIN_SECONDS = 600
BACKGROUND_SHARE = {2: 0.20, 8: 0.24}
"""What services keep a machine's GPUs busy with, by its GPUs: the cluster serves models besides training them.

With it the daily means of machine_gpu come out as published, and those of the first three days as the 2-GPU machines'.
"""
TRAINING_WEIGHT = 0.6
"""Of what instances use in the mean, the part that adds to what the machine does anyway."""
FULLEST = 0.97


@dataclass(frozen=True)
class Metrics:
    """One entry per metric row; `row` is the attempt it belongs to."""

    row: NDArray[np.int64]
    iowait: NDArray[np.float64]
    kernel: NDArray[np.float64]
    usr: NDArray[np.float64]
    gpu: NDArray[np.float64]
    load_1: NDArray[np.float64]
    net_receive: NDArray[np.float64]
    num_worker: NDArray[np.float64]
    cpu: NDArray[np.float64]


def observed(trace: Trace, usage: Usage) -> Metrics:
    rng = generator(trace.seed, 21)
    rows, machines = trace.rows, trace.population.machines
    chosen = _chosen(trace, rng)
    machine, start, end = rows.machine[chosen].astype(np.int64), rows.started_at[chosen], rows.ended_at[chosen]
    placed = np.flatnonzero(rows.machine >= 0)
    where = (rows.machine[placed].astype(np.int64), rows.started_at[placed], rows.ended_at[placed])
    amount = np.minimum(usage.gpu_percent, 800.0)[rows.task[placed]]
    gpu = load(_gpu_level(trace, level(*where, amount, len(machines)), rng)).average(machine, start, end)
    workers = load(level(*where, np.ones(len(placed)), len(machines))).average(machine, start, end)
    busy = load(level(*where, usage.cpu_percent[rows.task[placed]], len(machines))).average(machine, start, end)
    cores = machines.cap_cpu[machine]
    usr, kernel, iowait = _cpu(busy / cores, rng)
    total = usr + kernel + iowait
    spread = np.exp(rng.normal(0.0, 0.15, len(chosen)))
    return Metrics(
        row=chosen,
        iowait=iowait,
        kernel=kernel,
        usr=usr,
        gpu=np.clip(gpu * np.exp(rng.normal(0.0, 0.05, len(chosen))), 0.0, machines.cap_gpu[machine] * 100.0),
        load_1=total / 100 * cores * spread + 0.5,
        net_receive=np.exp(rng.normal(17.6, 1.1, len(chosen))) * (0.3 + total / 50),
        num_worker=np.maximum(workers, 1.0),
        cpu=total,
    )


def _chosen(trace: Trace, rng: np.random.Generator) -> NDArray[np.int64]:
    """The Terminated attempts that have a row: none before the monitoring began, few while it was rolled out."""
    rows, machines = trace.rows, trace.population.machines
    is_seen = (rows.status == TERMINATED) & ~rows.is_rerun & (rows.ended_at > rows.started_at)
    is_seen &= (rows.ended_at >= clock.METRICS_FROM) & (rows.ended_at < clock.METRICS_TO)
    is_small = (machines.cap_gpu == 2)[rows.machine]
    is_seen &= (rows.ended_at >= clock.ROLLOUT_TO) | is_small
    eligible = np.flatnonzero(is_seen)
    count = min(scaled("machine_metrics", len(trace.population.jobs)), len(eligible))
    return np.sort(rng.choice(eligible, count, replace=False))


def _gpu_level(trace: Trace, used: NDArray[np.float64], rng: np.random.Generator) -> NDArray[np.float64]:
    """Summed GPU % per machine and bin, never above what the machine has."""
    cap = trace.population.machines.cap_gpu
    room = cap * 100.0 * FULLEST
    second = clock.FIRST_SECOND + BIN_SECONDS * np.arange(used.shape[1])
    factor = np.ones(used.shape[1])
    if trace.plan:
        factor[(second >= trace.plan.hot_from) & (second < trace.plan.hot_to)] = trace.plan.hot_factor
    share = np.array([BACKGROUND_SHARE.get(int(gpus), 0.0) for gpus in cap])
    services = room * share * (0.7 + 0.6 * rng.permutation(even(len(cap), rng)))
    wanted = (TRAINING_WEIGHT * np.maximum(used, 0.0) + services[:, None]) * factor
    # The closer to full, the less a further instance adds: they share the same GPUs.
    summed: NDArray[np.float64] = room[:, None] * -np.expm1(-wanted / np.maximum(room, 1.0)[:, None])
    return summed


def _cpu(
    busy: NDArray[np.float64], rng: np.random.Generator
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """usr, kernel and iowait %: the published curves, in the order of how busy the machine was."""
    score = ranks(busy)

    def drawn(name: str, noise: float) -> NDArray[np.float64]:
        return curve("machine_cpu_percent", name).value(ranks(score + rng.normal(0.0, noise, len(score))))

    usr, kernel, iowait = drawn("usr", 0.3), drawn("kernel", 0.45), drawn("iowait", 0.6)
    return usr, np.minimum(kernel, np.maximum(99.0 - usr, 0.3)), iowait


@dataclass(frozen=True)
class Load:
    """What runs on every machine, over time: the running integral (unit-seconds) at the edges of ten-minute bins."""

    integral: NDArray[np.float64]

    def average(
        self, machine: NDArray[np.int64], started_at: NDArray[np.int32], ended_at: NDArray[np.int32]
    ) -> NDArray[np.float64]:
        seconds = np.maximum(ended_at - started_at, 1)
        total = self._until(machine, started_at + seconds) - self._until(machine, started_at)
        mean: NDArray[np.float64] = total / seconds
        return mean

    def _until(self, machine: NDArray[np.int64], second: NDArray[np.int32]) -> NDArray[np.float64]:
        place, within = np.divmod(second - clock.FIRST_SECOND, BIN_SECONDS)
        place = np.clip(place, 0, self.integral.shape[1] - 2)
        low, high = self.integral[machine, place], self.integral[machine, place + 1]
        total: NDArray[np.float64] = low + (high - low) * (within / BIN_SECONDS)
        return total


def level(
    machine: NDArray[np.int64],
    started_at: NDArray[np.int32],
    ended_at: NDArray[np.int32],
    amount: NDArray[np.floating],
    machines: int,
) -> NDArray[np.float64]:
    """The mean sum of the amounts present in each bin, per machine."""
    bins = int(np.ceil((ended_at.max() - clock.FIRST_SECOND) / BIN_SECONDS)) + 2
    change = np.zeros(machines * bins)
    for second, sign in ((started_at, 1.0), (ended_at, -1.0)):
        place, within = np.divmod(second - clock.FIRST_SECOND, BIN_SECONDS)
        late = within / BIN_SECONDS
        flat = machine * bins + place
        np.add.at(change, flat, sign * amount * (1 - late))
        np.add.at(change, flat + 1, sign * amount * late)
    return np.cumsum(change.reshape(machines, bins), axis=1)


def load(levels: NDArray[np.float64]) -> Load:
    zero = np.zeros((len(levels), 1))
    return Load(np.concatenate([zero, np.cumsum(levels * BIN_SECONDS, axis=1)], axis=1))


GANG_NOISE = 0.10
"""By how much an instance of a gang may differ from the mean of its task."""
IDLE_RATIO = 0.0002
NOISE = {"gpu": 1.2, "cpu": 1.2, "mem": 9.0}
"""How little a task's use follows from its request; chosen such that hardly any ratio must be moved across 1."""
MEM_RATIO = Curve.through([5, 25, 50, 75, 95], [0.01, 0.05, 0.12, 0.30, 0.92], least=0.002, most=2.5)
"""Host memory used over asked for: nothing is public but the share above 1 and a median of about 3.5 GB."""


@dataclass(frozen=True)
class Usage:
    """What one instance of each task uses on average; and the rows that have a sensor row."""

    has_sensor: NDArray[np.bool_]
    gpu_percent: NDArray[np.float64]
    cpu_percent: NDArray[np.float64]
    mem_gb: NDArray[np.float64]
    gpu_mem_gb: NDArray[np.float64]


def measured(trace: Trace) -> Usage:
    rng = generator(trace.seed, 20)
    people, rows = trace.population, trace.rows
    tasks = people.tasks
    has_sensor = _has_sensor(trace, rng)
    sensors = sums_by(rows.task[has_sensor], np.ones(np.count_nonzero(has_sensor)), len(tasks))
    seen = np.flatnonzero(sensors > 0)
    shares = published()["shares"]["plan_below_usage"]
    heat = _heat(trace)
    plans: dict[str, NDArray[Any]] = {"gpu": tasks.plan_gpu, "cpu": people.plan_cpu, "mem": people.plan_mem}
    curves: dict[str, Curve | None] = {
        "gpu": curve("usage", "gpu_percent"),
        "cpu": curve("usage", "cpu_percent"),
        "mem": None,
    }
    ratios = {}
    for name, plan in plans.items():
        asked = (plan * sensors)[seen]
        score = 0.9 * np.log(asked) + rng.normal(0.0, NOISE[name], len(seen)) + (heat[seen] if name == "gpu" else 0.0)
        known = curves[name]
        ratio = MEM_RATIO.value(ranks(score)) if known is None else known.value(ranks(score)) / asked
        ratios[name] = _spread(_with_share_above(ratio, shares[name] / 100), seen, len(tasks), rng)
    idle = np.isin(tasks.job, people.idle_jobs)
    ratios["gpu"][idle] = IDLE_RATIO
    gpu_mem = np.zeros(len(tasks))
    score = np.log((tasks.plan_gpu * sensors)[seen]) + rng.normal(0.0, 0.8, len(seen))
    gpu_mem[seen] = curve("usage", "gpu_memory_gb").value(ranks(score)) / sensors[seen]
    room = np.array([200.0 if name in ("T4", "P100") else 800.0 for name in GPU_TYPES] + [0.0])[tasks.gpu_type]
    return Usage(
        has_sensor=has_sensor,
        gpu_percent=np.minimum(ratios["gpu"] * tasks.plan_gpu, room),
        cpu_percent=ratios["cpu"] * people.plan_cpu,
        mem_gb=ratios["mem"] * people.plan_mem,
        gpu_mem_gb=gpu_mem,
    )


def _has_sensor(trace: Trace, rng: np.random.Generator) -> NDArray[np.bool_]:
    """Most Terminated GPU instances are measured, and always those of the runaway user."""
    rows, tasks = trace.rows, trace.population.tasks
    share = habits()["sensors"]
    is_measured = tasks.has_gpu & (rng.random(len(tasks)) < share["task_share"])
    chance = is_measured * np.where(tasks.size > 1, share["instance_share"], 1.0)
    chance[np.isin(tasks.job, trace.population.idle_jobs)] = 1.0
    is_drawn: NDArray[np.bool_] = rng.random(len(rows), dtype=np.float32) < chance[rows.task]
    is_drawn &= (rows.status == TERMINATED) & ~rows.is_rerun
    return is_drawn


def _heat(trace: Trace) -> NDArray[np.float64]:
    """Tasks that run within the hot week-end work harder; one that outlasts it would carry the heat into the week."""
    if trace.plan is None:
        return np.zeros(len(trace.task_started_at))
    is_within = (trace.task_started_at >= trace.plan.hot_from) & (trace.task_ended_at < trace.plan.hot_to)
    return np.where(is_within, trace.plan.hot_boost, 0.0)


def _with_share_above(ratio: NDArray[np.float64], share: float) -> NDArray[np.float64]:
    """The same ratios, moved just so far that exactly this share is above 1, with room for the noise of gangs."""
    order = np.argsort(ratio, kind="stable")
    cut = len(ratio) - round(share * len(ratio))
    moved = ratio.copy()
    margin = 1.0 + 1.5 * GANG_NOISE
    moved[order[:cut]] = np.minimum(ratio[order[:cut]], 1 / margin)
    moved[order[cut:]] = np.maximum(ratio[order[cut:]], margin)
    return moved


def _spread(
    ratio: NDArray[np.float64], seen: NDArray[np.int64], tasks: int, rng: np.random.Generator
) -> NDArray[np.float64]:
    """Tasks without sensors use what others of their size in the ranking do: any of the measured ratios."""
    every = ratio[rng.integers(0, len(ratio), tasks)] if len(ratio) else np.zeros(tasks)
    every[seen] = ratio
    return every
