"""Usage: the part of their request that instances use."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpulake.core.pai import published
from gpulake.synth.draws import Curve, generator, ranks, sums_by
from gpulake.synth.facts import GPU_TYPES, TERMINATED, curve, habits
from gpulake.synth.trace import Trace

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
