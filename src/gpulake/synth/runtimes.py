"""Run times: as published for the tasks of each GPU type, and as the real instances show for gangs, at the same time.

A figure of tasks says little about GPUs: four of five instances belong to gangs, which run longer than other tasks. So
gangs take their places on the curve of their type first, such that their instances run as the real ones do; the tasks
of one instance share the places that are left.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from gpulake.synth import clock
from gpulake.synth.draws import Curve, Floats, generator
from gpulake.synth.facts import GPU_TYPES, curve, tail_curve
from gpulake.synth.tasks import Jobs, Tasks

# All of these in units of the spread of run times between groups.
SPREAD = 0.004
"""Between the runs of a group. How alike they are is not published, only how well they can be predicted: the last runs
of a group predict 76 to 77 % of instances within a quarter at 20,000 jobs (seeds 0 to 3), 80 % at 100,000."""
DRIFT = 0.06
"""From the first day to the last, up or down, as the data of a recurring job grow or shrink."""
LONGER_BY_REQUEST = 0.15
"""For twice the GPUs: so that tasks which ask for more than one take a third of the GPU time, as is known."""
LARGE_GANG = 50
SHORTER_IN_LARGE_GANGS = 0.3
"""Instances of such gangs run 717 s in the median of the real tail, those of smaller gangs nearly twice as long."""


def runtimes(tasks: Tasks, jobs: Jobs, is_terminated: NDArray[np.bool_], seed: int) -> NDArray[np.float64]:
    """Mean seconds the instances of a task run, alike within a group; Terminated tasks follow the curves."""
    score = _scores(tasks, jobs, seed)
    in_gang = _gang_seconds(score, tasks.size, is_terminated)
    runtime = np.empty(len(tasks))
    for code, name in enumerate((*GPU_TYPES, "all")):
        has_type = (tasks.gpu_type == code) & tasks.has_gpu if name != "all" else ~tasks.has_gpu
        known = np.flatnonzero(has_type & is_terminated)
        runtime[known] = _on_curve(score[known], in_gang[known], curve("runtime_seconds", name))
        for is_alike in (tasks.size > 1, tasks.size == 1):
            others = np.flatnonzero(has_type & is_alike & ~is_terminated)
            peers = known[is_alike[known]] if is_alike[known].any() else known
            peers = peers[np.argsort(score[peers], kind="stable")]
            runtime[others] = np.interp(score[others], score[peers], runtime[peers])
    return runtime


def _scores(tasks: Tasks, jobs: Jobs, seed: int) -> NDArray[np.float64]:
    """The rank of each task by run time, as a score."""
    rng = generator(seed, 5)
    group = jobs.group[tasks.job]
    mean_size = (np.bincount(group, weights=tasks.size) / np.bincount(group))[group]
    score = _likeness(jobs, rng)[tasks.job] + SPREAD * rng.normal(0.0, 1.0, len(tasks))
    score += LONGER_BY_REQUEST * np.log2(np.maximum(tasks.plan_gpu / 100, 1.0))
    score -= SHORTER_IN_LARGE_GANGS * (mean_size >= LARGE_GANG)
    return score


def _likeness(jobs: Jobs, rng: np.random.Generator) -> NDArray[np.float64]:
    """A score per job: that of its group, which drifts a little from the first day to the last."""
    groups = int(jobs.group.max()) + 1
    habit, drift = rng.normal(0.0, 1.0, groups), DRIFT * rng.choice([-1.0, 1.0], groups)
    passed = (jobs.submitted_at - clock.FIRST_SECOND) / (clock.LAST_SUBMISSION - clock.FIRST_SECOND)
    likeness: NDArray[np.float64] = habit[jobs.group] + drift[jobs.group] * passed
    return likeness


def _gang_seconds(score: Floats, size: NDArray[np.int32], is_terminated: NDArray[np.bool_]) -> NDArray[np.float64]:
    """What gangs should run, such that their instances, not they themselves, follow the real ones; NaN elsewhere."""
    seconds = np.full(len(score), np.nan)
    gangs = np.flatnonzero(is_terminated & (size > 1))
    gangs = gangs[np.argsort(score[gangs], kind="stable")]
    instances = size[gangs]
    seconds[gangs] = tail_curve("gang_run_seconds").value((np.cumsum(instances) - instances / 2) / instances.sum())
    return seconds


def _on_curve(score: Floats, in_gang: Floats, tasks: Curve) -> NDArray[np.float64]:
    """Seconds of tasks on the curve of their type: gangs come as close to theirs as they can, the others follow."""
    order = np.argsort(score, kind="stable")
    is_gang = ~np.isnan(in_gang[order])
    gangs = order[is_gang]
    place = _distinct((tasks.share(in_gang[gangs]) * len(score)).astype(np.int64), len(score))
    seconds = tasks.value((np.arange(len(score)) + 0.5) / max(len(score), 1))
    runtime = np.empty(len(score))
    runtime[gangs] = seconds[place]
    runtime[order[~is_gang]] = np.delete(seconds, place)
    return runtime


def _distinct(place: NDArray[np.int64], count: int) -> NDArray[np.int64]:
    """Ascending places below count, moved up and down as little as makes each of them another one."""
    turn = np.arange(len(place))
    up, down = np.maximum.accumulate(place - turn), np.minimum.accumulate((place - turn)[::-1])[::-1]
    distinct: NDArray[np.int64] = np.clip((up + down) // 2, 0, count - len(place)) + turn
    return distinct
