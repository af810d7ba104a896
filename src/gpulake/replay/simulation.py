"""A past under a policy: who starts when, what is held and what is lost."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpulake.core.errors import InputError
from gpulake.replay.kernel import arrays
from gpulake.replay.kernel.arrays import FOREVER, GPU, Ints, Rules, State
from gpulake.replay.kernel.loop import compiled, plain
from gpulake.replay.policies import ORDERS, PASSES, PLACEMENTS, PREEMPTIONS, Policy
from gpulake.replay.trace import Machines, Trace, Tuning

TYPICAL = 8  # sizes of requests that fragmentation is measured by
LEVELS = 4  # of attained time, at most
LARGEST_TABLE = 1 << 22
LARGEST = 1 << 40  # of times in seconds, and of all thousandths of GPUs


@dataclass(frozen=True)
class Outcome:
    start: Ints  # seconds; -1: never
    end: Ints  # -1: not within the time
    tries: Ints
    held_gpu_seconds: NDArray[np.float64]
    lost_gpu_seconds: NDArray[np.float64]  # held by attempts that ended early, and not kept by a checkpoint
    log: Ints  # job, machine, slot, from, until, thousandths


@cache
def _run(is_compiled: bool) -> Any:
    return compiled() if is_compiled else plain


def simulate(
    trace: Trace,
    machines: Machines,
    policy: Policy,
    tuning: Tuning | None = None,
    *,
    until: int | None = None,
    is_compiled: bool = True,
    is_logged: bool = False,
) -> Outcome:
    """Jobs that no empty cluster could take are left out: they never start."""
    tuning = tuning or Tuning()
    _check(trace, machines)
    fits = placeable(trace, machines)
    kept = trace.kept(fits)
    state = as_state(kept, machines, policy, int(kept.count.sum()) * 8 if is_logged else 0)
    _run(is_compiled)(state, as_rules(kept, policy, tuning), FOREVER if until is None else until)

    def result(row: int, missing: int) -> Ints:
        whole = np.full(len(trace), missing, np.int64)
        whole[fits] = state.jobs[row, :-1]
        return whole

    log = state.log[: state.numbers[arrays.LOGGED]]
    log[:, 0] = np.flatnonzero(fits)[log[:, 0]] if len(log) else log[:, 0]
    held, lost = result(arrays.HELD, 0) / GPU, result(arrays.LOST, 0) / GPU
    return Outcome(result(arrays.START, -1), result(arrays.END, -1), result(arrays.TRIES, 0), held, lost, log)


def placeable(trace: Trace, machines: Machines) -> NDArray[np.bool_]:
    """Whether the cluster, empty and whole, has room for a job."""
    found = np.zeros(len(trace), np.bool_)
    first, shape = _shapes(trace)
    for position, job in enumerate(first):
        part = trace.part[job]
        each = machines.gpus // (part // GPU) if part >= GPU else machines.gpus * (GPU // part)
        found[shape == position] = each[machines.allow[trace.allowed[job]]].sum() >= trace.count[job]
    return found


def _shapes(trace: Trace) -> tuple[Ints, Ints]:
    """The first job of each shape, and the number of each job's shape."""
    parts, rows = trace.part.max(initial=0) + 1, trace.allowed.max(initial=0) + 1
    shape = _dense((trace.count * parts + trace.part) * rows + trace.allowed)
    first = np.zeros(shape.max(initial=-1) + 1, np.int64)
    first[shape[::-1]] = np.arange(len(shape))[::-1]
    return first, shape


def _dense(values: Ints) -> Ints:
    """Numbered from 0 in their order: by a table where one is small enough, which is quicker than to sort."""
    if not len(values) or values.min() < 0 or values.max() > LARGEST_TABLE:
        return np.unique(values, return_inverse=True)[1]
    is_used = np.zeros(values.max() + 1, np.bool_)
    is_used[values] = True
    return (np.cumsum(is_used) - 1)[values]


def _check(trace: Trace, machines: Machines) -> None:
    if len(trace) and (np.diff(trace.submit) < 0).any():
        raise InputError("the jobs of a simulation are not in the order of submission", "sort them")
    if (trace.after >= np.arange(len(trace))).any():
        raise InputError("a job waits for one that comes after it", "sort jobs so that dependencies come first")
    largest = max(int(np.abs(column).max(initial=0)) for column in (trace.submit, trace.work, trace.estimate))
    if largest > LARGEST or machines.total_gpus * GPU > LARGEST:
        raise InputError(f"a simulation has a number of {largest}", "times are seconds from the begin")


def as_jobs(trace: Trace, policy: Policy) -> Ints:
    size = len(trace)
    jobs = np.zeros((arrays.JOB_ROWS, size + 1), np.int64)
    child, sibling = np.full(size, -1, np.int64), np.full(size, -1, np.int64)
    for j in np.flatnonzero(trace.after >= 0)[::-1]:
        sibling[j] = child[trace.after[j]]
        child[trace.after[j]] = j
    given = {
        arrays.SUBMIT: trace.submit,
        arrays.COUNT: trace.count,
        arrays.PART: trace.part,
        arrays.ALLOWED: trace.allowed,
        arrays.ESTIMATE: trace.predicted if policy.has_predictions else trace.estimate,
        arrays.LIMIT: trace.limit,
        arrays.RANK: trace.rank,
        arrays.ACCOUNT: _dense(trace.account),
        arrays.KEY: policy.key(trace),
        arrays.AFTER: trace.after,
        arrays.SHAPE: _shapes(trace)[1],
        arrays.OFFSET: np.cumsum(trace.count) - trace.count,
        arrays.CHILD: child,
        arrays.SIBLING: sibling,
        arrays.LEFT: trace.work,
    }
    for row, values in given.items():
        jobs[row, :-1] = values
    jobs[[arrays.BEGUN, arrays.START, arrays.END, arrays.KEPT_AT]] = -1
    return jobs


def as_state(trace: Trace, machines: Machines, policy: Policy, log_rows: int) -> State:
    size, count, slots = len(trace), len(machines.gpus), machines.total_gpus
    mach = np.zeros((arrays.TOP + 1, count + 1), np.int64)
    mach[arrays.TIER, :-1], mach[arrays.WHOLE, :-1] = machines.tier, machines.gpus
    mach[arrays.BASE, 1:], mach[arrays.MILLI, :-1] = np.cumsum(machines.gpus), machines.gpus * GPU
    mach[arrays.TOP, :] = machines.gpus.max(initial=0) * GPU
    numbers = np.zeros(arrays.NUMBERS, np.int64)
    numbers[[arrays.FREE, arrays.VERSION, arrays.MACHINES, arrays.RESERVED]] = slots * GPU, 1, count, -1
    return State(
        as_jobs(trace, policy),
        mach,
        np.full(slots, -1, np.int64),
        np.full((2, int(trace.count.sum())), -1, np.int64),
        np.zeros((3, 2 * size + 2), np.int64),
        numbers,
        np.ascontiguousarray(machines.allow),
        as_events(machines),
        np.zeros((log_rows, 6), np.int64),
        np.zeros(0, np.int64),
        np.zeros_like(mach),
        np.zeros(slots, np.int64),
    )


def as_events(machines: Machines) -> Ints:
    """At one moment machines come back before others go down."""
    is_long = machines.out_until > machines.out_from
    at = np.concatenate([machines.out_from[is_long], machines.out_until[is_long]])
    which = np.tile(machines.out_machine[is_long], 2)
    down = np.repeat(np.array([1, 0], np.int64), is_long.sum())
    return np.ascontiguousarray(np.stack([at, which, down])[:, np.lexsort([which, down, at])])


def as_rules(trace: Trace, policy: Policy, tuning: Tuning) -> Rules:
    depths = [depth for depth in (tuning.depth, policy.depth) if depth > 0]
    levels = [round(hours * 3600 * GPU) for hours in tuning.level_gpu_hours]
    part, weight = np.unique(trace.part, return_counts=True)
    common = np.argsort(-weight, kind="stable")[:TYPICAL]
    return Rules(
        PASSES.index(policy.passes),
        min(depths, default=len(trace) + 1),
        PLACEMENTS.index(policy.placement),
        ORDERS.index(policy.order),
        PREEMPTIONS.index(policy.preempts),
        tuning.latency_seconds,
        tuning.checkpoint_seconds,
        tuning.restart_seconds,
        tuning.half_life_seconds,
        _padded(levels, LEVELS, FOREVER),
        _padded(part[common].tolist(), TYPICAL, GPU),
        _padded(weight[common].tolist(), TYPICAL, 0),
    )


def _padded(values: list[int], size: int, filler: int) -> tuple[int, ...]:
    """Always as many, so that one compiled version serves all."""
    return tuple((values + [filler] * size)[:size])
