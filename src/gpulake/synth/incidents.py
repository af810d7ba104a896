"""Incidents: the things that go wrong in a trace on purpose, and the truth about them.

Strength scales what each of them adds to what is usual; 1 is all of it, a half is half of it:

- runaway user: the number of jobs;
- failure burst: the share of the jobs that is made to fail;
- slow machine: by how much longer runs take, 2.5 times as long at full strength and 1.75 times at a half;
- hot week-end: by how much more GPUs do, and how far its tasks move up in the ranking of usage;
- dead rack: how long it is silent, a day at full strength, and so the GPU-hours that it costs.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace

import numpy as np
from numpy.typing import NDArray

from gpulake.synth import clock, stories
from gpulake.synth.attempts import Attempts
from gpulake.synth.draws import generator
from gpulake.synth.facts import FAILED, GPU_TYPES, INTERRUPTED, TERMINATED
from gpulake.synth.placement import SLOT_SECONDS, Closure, Drag, Machines
from gpulake.synth.tasks import Jobs, Tasks

RACK_TYPE = GPU_TYPES.index("P100")
SLOW_TYPE = GPU_TYPES.index("T4")
RUNAWAY_TYPE = GPU_TYPES.index("MISC")
BURST_FAILED_SHARE = 0.85
BURST_MOST_INSTANCES = 30
SLOW_FACTOR = 2.5
HOT_FACTOR = 2.2
HOT_BOOST = 1.6
"""By how much tasks of the hot week-end move up in the ranking, in standard deviations of its noise or so."""
DEAD_SECONDS = clock.DAY_SECONDS


@dataclass(frozen=True)
class Incident:
    kind: str
    first_second: int
    last_second: int
    subject: str
    subject_ids: tuple[str, ...]
    magnitude: float
    expect: str
    strength: float = 1.0

    def as_record(self) -> dict[str, object]:
        local = {"first_local": clock.iso(self.first_second), "last_local": clock.iso(self.last_second)}
        return {**asdict(self), **local}


@dataclass(frozen=True)
class IncidentPlan:
    """When and where things go wrong: each on separate days, after the first ten."""

    runaway_from: int
    runaway_to: int
    rack: Closure | None
    hot_from: int
    hot_to: int
    burst_from: int
    burst_to: int
    slow: Drag | None
    strength: float = 1.0

    @property
    def burst_failed_share(self) -> float:
        """Of the jobs of the burst, made to fail; the others fail as often as ever."""
        return BURST_FAILED_SHARE * self.strength

    @property
    def hot_factor(self) -> float:
        return 1.0 + (HOT_FACTOR - 1.0) * self.strength

    @property
    def hot_boost(self) -> float:
        return HOT_BOOST * self.strength


def planned(machines: Machines, seed: int, strength: float) -> IncidentPlan:
    rng = generator(seed, 9)
    runaway = clock.at(2, 3 + int(rng.integers(0, 2)), 8)
    dead = clock.at(2, 10 + int(rng.integers(0, 3)), 10 + int(rng.integers(0, 7)))
    hot = clock.at(2, (14, 21)[int(rng.integers(0, 2))])
    burst = clock.at(2, 24 + int(rng.integers(0, 3)), 10 + int(rng.integers(0, 6)))
    slow = clock.at(3, 2 + int(rng.integers(0, 3)))
    racks, slows = len(machines.of_type(RACK_TYPE)), len(machines.of_type(SLOW_TYPE))
    size = min(24, max(2, racks // 6))
    rack = Closure(np.arange(size), dead, dead + round(DEAD_SECONDS * strength))
    factor = 1.0 + (SLOW_FACTOR - 1.0) * strength
    drag = Drag(int(rng.integers(0, slows)), slow, slow + 9 * clock.DAY_SECONDS, factor)
    return IncidentPlan(
        runaway_from=runaway,
        runaway_to=runaway + 2 * clock.DAY_SECONDS,
        # A trace so small that the rest of the type could not take over has neither.
        rack=rack if racks >= 2 * size else None,
        hot_from=hot,
        hot_to=hot + 2 * clock.DAY_SECONDS,
        burst_from=burst,
        burst_to=burst + 5 * clock.HOUR_SECONDS,
        slow=drag if slows >= 3 else None,
        strength=strength,
    )


def burst(
    plan: IncidentPlan, jobs: Jobs, story: NDArray[np.int8], in_job: NDArray[np.int64], seed: int
) -> NDArray[np.int64]:
    """Most jobs submitted in a few hours fail. Changes their stories; returns the jobs."""
    rng = generator(seed, 10)
    is_within = (jobs.submitted_at >= plan.burst_from) & (jobs.submitted_at < plan.burst_to)
    # One gang of a thousand would weigh more than all other failures of those hours.
    is_within &= in_job <= BURST_MOST_INSTANCES
    hit = np.flatnonzero(is_within & (rng.random(len(jobs)) < plan.burst_failed_share))
    story[hit] = np.where(in_job[hit] > 1, stories.NAMES.index("failed_gang"), stories.NAMES.index("failed"))
    return hit


def runaway(
    plan: IncidentPlan,
    jobs: Jobs,
    tasks: Tasks,
    story: NDArray[np.int8],
    runtime: NDArray[np.float64],
    gpus: int,
    seed: int,
) -> tuple[int, NDArray[np.int64]]:
    """One user submits hundreds of jobs that hold whole GPUs. Changes users and times; returns the user and the jobs.

    Jobs are taken that already ask for one GPU for about the right time, so that the published curves stay as they are.
    """
    rng = generator(seed, 11)
    count = min(900, max(10, len(jobs) // 100))
    wanted_seconds = min(0.12 * gpus * (plan.runaway_to - plan.runaway_from) / count, clock.DAY_SECONDS)
    alone = np.bincount(tasks.job, minlength=len(jobs))[tasks.job] == 1
    fits = alone & (tasks.size == 1) & (tasks.gpu_type == RUNAWAY_TYPE) & (tasks.plan_gpu == 100)
    fits &= story[tasks.job] == stories.NAMES.index("well")
    candidate = np.flatnonzero(fits)
    distance = np.abs(np.log(runtime[candidate] / wanted_seconds))
    taken = max(1, round(count * plan.strength))
    chosen = tasks.job[np.sort(candidate[np.argsort(distance, kind="stable")[:taken]])].astype(np.int64)
    submitted = np.bincount(jobs.user)
    typical = np.flatnonzero((submitted > 0) & (submitted <= np.median(submitted[submitted > 0])))
    user = int(rng.choice(typical))
    jobs.user[chosen] = user
    span = plan.runaway_to - plan.runaway_from - int(wanted_seconds)
    jobs.submitted_at[chosen] = plan.runaway_from + np.sort(rng.integers(0, max(span, 1), len(chosen)))
    return user, chosen


def peers_wait(rows: Attempts, is_slowed: NDArray[np.bool_], tasks: int) -> None:
    """The gang of a slowed instance ends with it."""
    last = np.zeros(tasks, dtype=np.int32)
    np.maximum.at(last, rows.task[is_slowed], rows.ended_at[is_slowed])
    is_peer = (rows.status == TERMINATED) & (last[rows.task] > rows.ended_at) & ~rows.is_rerun
    rows.ended_at[is_peer] = last[rows.task[is_peer]]


def kill_rack(rack: NDArray[np.int64], second: int, rows: Attempts, jobs: NDArray[np.int32]) -> NDArray[np.bool_]:
    """What ran on the rack fails at once and interrupts its job. Changes rows; returns those that were hit."""
    is_running = (rows.started_at < second) & (rows.ended_at > second)
    is_there = is_running & np.isin(rows.machine, rack)
    rows.ended_at[is_there] = second
    is_active = is_running & (rows.status == TERMINATED)
    is_failed = is_active & is_there
    is_hit: NDArray[np.bool_] = is_active & np.isin(jobs[rows.task], np.unique(jobs[rows.task[is_failed]]))
    rows.status[is_hit] = INTERRUPTED
    rows.status[is_failed] = FAILED
    rows.ended_at[is_hit] = second
    again = np.flatnonzero(rows.is_rerun)
    again = again[is_hit[again - 1]]
    rows.status[again] = INTERRUPTED
    rows.started_at[again] = rows.ended_at[again] = second
    is_hit[again] = True
    return is_hit


def with_rack(
    plan: IncidentPlan, rows: Attempts, holds_gpu: NDArray[np.bool_], pool: NDArray[np.int64], seed: int
) -> IncidentPlan:
    """The plan with a rack and a moment of its day, drawn from those at which GPUs were held on most of its machines.

    A rack that holds nothing leaves nothing in the records of jobs. Where none holds anything all day, none dies.
    """
    if plan.rack is None:
        return plan
    day = (plan.rack.first_second - clock.FIRST_SECOND) // clock.DAY_SECONDS * clock.DAY_SECONDS + clock.FIRST_SECOND
    seconds = np.arange(day, day + clock.DAY_SECONDS, SLOT_SECONDS)
    is_near = (rows.started_at < seconds[-1]) & (rows.ended_at > day) & (rows.status == TERMINATED) & holds_gpu
    has_active = np.zeros((len(pool) + 1, len(seconds)), dtype=np.int64)
    for place, machine in enumerate(pool):
        here = is_near & (rows.machine == machine)
        started, ended = np.sort(rows.started_at[here]), np.sort(rows.ended_at[here])
        has_active[place + 1] = np.searchsorted(started, seconds) > np.searchsorted(ended, seconds, side="right")
    size = len(plan.rack.machines)
    summed = np.cumsum(has_active, axis=0)
    firsts, moments = np.nonzero(summed[size:] - summed[:-size] > size // 2)
    if not len(firsts):
        return replace(plan, rack=None)
    drawn = int(generator(seed, 13).integers(0, len(firsts)))
    second = int(seconds[moments[drawn]])
    silent = plan.rack.last_second - plan.rack.first_second
    return replace(plan, rack=Closure(firsts[drawn] + np.arange(size), second, second + silent))
