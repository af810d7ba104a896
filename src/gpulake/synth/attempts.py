"""Attempts: the rows of the instance table. An instance that fails is tried again, back to back."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gpulake.synth import stories
from gpulake.synth.draws import choose, generator, sums_by
from gpulake.synth.facts import FAILED, TERMINATED, habits
from gpulake.synth.tasks import Tasks

NOWHERE = -1


@dataclass(frozen=True)
class Attempts:
    """One entry per row, in the order of tasks. Times are what happened; is_*_known is what the record shows."""

    task: NDArray[np.int32]
    instance: NDArray[np.int32]
    worker: NDArray[np.int32]
    status: NDArray[np.int8]
    started_at: NDArray[np.int32]
    ended_at: NDArray[np.int32]
    machine: NDArray[np.int16]
    is_rerun: NDArray[np.bool_]
    is_start_known: NDArray[np.bool_]
    is_end_known: NDArray[np.bool_]

    def __len__(self) -> int:
        return len(self.task)


@dataclass(frozen=True)
class Instances:
    """One entry per instance: how it ends, and how many attempts fail before."""

    task: NDArray[np.int32]
    status: NDArray[np.int8]
    failures: NDArray[np.int64]
    is_rerun: NDArray[np.bool_]


def instances(tasks: Tasks, story: NDArray[np.int8], rows: int, seed: int) -> Instances:
    """Every instance's end, with as many retries as make up the wanted number of rows."""
    rng = generator(seed, 7)
    task = np.repeat(np.arange(len(tasks), dtype=np.int32), tasks.size)
    job = tasks.job[task]
    in_job = np.bincount(job, minlength=len(story)).astype(np.int32)
    first = np.cumsum(in_job) - in_job
    turn = rng.random(len(story)).astype(np.float32)
    place = np.mod((np.arange(len(task)) - first[job] + 0.5) / in_job[job] + turn[job], 1.0)
    status = stories.last_statuses(story[job], place, in_job[job])
    extra = rows - len(task)
    reruns = min(round(habits()["retries"]["rerun_share"] * rows), max(extra, 0))
    is_rerun = np.zeros(len(task), dtype=bool)
    is_alone = (status == TERMINATED) & (tasks.size[task] == 1)
    is_rerun[rng.choice(np.flatnonzero(is_alone), reruns, replace=False)] = True
    retried = stories.trait("retried")[story[job]]
    candidate = np.flatnonzero(place < np.where(retried > 0, np.maximum(retried, 1 / in_job[job]), 0.0))
    is_due = np.isin(story[job[candidate]], stories.ALWAYS_RETRIED) & (place[candidate] < 1 / in_job[job[candidate]])
    order = candidate[np.argsort(rng.random(len(candidate)) - is_due, kind="stable")]
    return Instances(task, status, _failures(order, len(task), extra - reruns, rng), is_rerun)


def _failures(order: NDArray[np.int64], count: int, total: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """Failed attempts of every instance, given to the first of the order until the total is spent."""
    table = habits()["retries"]
    failures = np.zeros(count, dtype=np.int64)
    while total > 0:
        number = np.array(table["extra"])[choose(table["weight"], rng.random(len(order)))]
        spent = np.minimum(np.cumsum(number), total)
        failures[order] += np.diff(spent, prepend=0)
        total -= int(spent[-1])
    return failures


def timed(
    tasks: Tasks, ends: Instances, started_at: NDArray[np.int64], runtime: NDArray[np.float64], seed: int
) -> Attempts:
    """Rows with their times: started_at is the start of a task's earliest instance."""
    rng = generator(seed, 8)
    rows = ends.failures + 1 + ends.is_rerun
    instance = np.repeat(np.arange(len(rows), dtype=np.int32), rows)
    attempt = (np.arange(len(instance)) - np.repeat(np.cumsum(rows) - rows, rows)).astype(np.int32)
    failures = ends.failures[instance]
    status = np.where(attempt < failures, FAILED, ends.status[instance]).astype(np.int8)
    duration = _durations(tasks, ends, runtime, rng)
    first = started_at[ends.task] + _offsets(tasks, rng)
    step = (30 + rng.exponential(25.0, len(rows))).astype(np.int32)
    start = first[instance] + np.minimum(attempt, failures) * step[instance]
    end = start + np.where(attempt < failures, step[instance], duration[instance])
    is_rerun = attempt > failures
    start[is_rerun] = end[np.flatnonzero(is_rerun) - 1]
    end[is_rerun] = start[is_rerun] + np.maximum(1, duration[instance[is_rerun]] * 3 // 4)
    worker = np.arange(len(instance), dtype=np.int32)
    worker[is_rerun] -= 1
    known = np.ones(len(instance), dtype=bool)
    return Attempts(
        ends.task[instance], instance, worker, status, start.astype(np.int32), end.astype(np.int32),
        np.full(len(instance), NOWHERE, dtype=np.int16), is_rerun, known, known.copy(),
    )  # fmt: skip


def _offsets(tasks: Tasks, rng: np.random.Generator) -> NDArray[np.int32]:
    """Seconds by which an instance starts after the earliest of its task: a few, rarely many."""
    count = int(tasks.size.sum())
    offset = rng.exponential(2.0, count).astype(np.int32)
    is_late = rng.random(count) < 0.02
    offset[is_late] += rng.exponential(120.0, int(is_late.sum())).astype(np.int32)
    offset[np.cumsum(tasks.size) - tasks.size] = 0
    return offset


def _durations(
    tasks: Tasks, ends: Instances, runtime: NDArray[np.float64], rng: np.random.Generator
) -> NDArray[np.int64]:
    """Seconds each instance runs. The mean over a task is its runtime; gangs spread as the real ones do."""
    spread = np.minimum(0.08 * np.exp(rng.normal(0.0, 1.2, len(tasks))), 0.9)
    # A gang that is interrupted ends together, at the failure.
    spread[tasks.size == 1] = 0.0
    factor = np.exp(spread[ends.task] * rng.standard_normal(len(ends.task), dtype=np.float32))
    factor[ends.status != TERMINATED] = 1.0
    mean = sums_by(ends.task, factor, len(tasks)) / tasks.size
    return np.maximum(np.rint(runtime[ends.task] * factor / mean[ends.task]), 1).astype(np.int64)
