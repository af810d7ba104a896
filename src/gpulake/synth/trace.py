"""A whole trace in memory: jobs, tasks, attempts and machines, with what went wrong on purpose."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gpulake.core.pai import published
from gpulake.core.progress import Report
from gpulake.synth import attempts, clock, incidents, stories
from gpulake.synth.attempts import Attempts
from gpulake.synth.draws import generator, sums_by
from gpulake.synth.facts import FAILED, INTERRUPTED, RUNNING, TERMINATED, TYPES, WAITING, scaled
from gpulake.synth.incidents import IncidentPlan
from gpulake.synth.placement import Closure, Drag, Machines, inventory, place
from gpulake.synth.runtimes import runtimes
from gpulake.synth.tasks import Jobs, Tasks, alike, plan_cpu_mem, planned, submitted, templates, waits

NO_JOBS = np.array([], dtype=np.int64)
UNKNOWN = -1


@dataclass(frozen=True)
class Population:
    """Jobs with user, request, submission and outcome, before they are placed."""

    jobs: Jobs
    tasks: Tasks
    machines: Machines
    story: NDArray[np.int8]
    wait_seconds: NDArray[np.int32]
    runtime_seconds: NDArray[np.float64]
    plan_cpu: NDArray[np.int32]
    plan_mem: NDArray[np.float64]
    plan: IncidentPlan | None
    burst_jobs: NDArray[np.int64]
    idle_user: int
    idle_jobs: NDArray[np.int64]


@dataclass(frozen=True)
class Trace:
    seed: int
    population: Population
    rows: Attempts
    plan: IncidentPlan | None
    hit_rows: NDArray[np.bool_]
    task_started_at: NDArray[np.int64]
    task_ended_at: NDArray[np.int64]
    job_status: NDArray[np.int8]
    job_ended_at: NDArray[np.int64]


def make(jobs: int, seed: int, *, has_incidents: bool, report: Report, incident_strength: float = 1.0) -> Trace:
    report("drawing jobs", 0.0)
    people = _population(jobs, seed, incident_strength if has_incidents else None)
    rng = generator(seed, 12)
    task_start = _task_starts(people, rng)
    first_start = task_start + people.wait_seconds
    _leave_running(people, first_start)
    report("drawing instances", 0.05)
    ends = attempts.instances(people.tasks, people.story, scaled("instances", jobs), seed)
    rows = attempts.timed(people.tasks, ends, first_start, people.runtime_seconds, seed)
    del ends
    report("placing instances", 0.15)
    plan, hit = _placed(people, rows, rng, seed, report)
    job_status = stories.trait("job_status").astype(np.int8)[people.story]
    job_status[people.tasks.job[rows.task[hit]]] = FAILED
    _forget_times(people, rows, hit, rng)
    task_end, job_end = _ends(people, rows, job_status, rng)
    task_start[(job_status == WAITING)[people.tasks.job]] = UNKNOWN
    return Trace(seed, people, rows, plan, hit, task_start, task_end, job_status, job_end)


def _population(count: int, seed: int, strength: float | None) -> Population:
    template = templates(count, generator(seed, 0))
    machines = inventory(count)
    tasks = planned(template, machines, seed)
    in_job = sums_by(tasks.job, tasks.size, count).astype(np.int64)
    jobs = submitted(template, alike(tasks, count), in_job, seed)
    story = stories.assign(in_job, seed)
    plan = incidents.planned(machines, seed, strength) if strength is not None else None
    burst_jobs = incidents.burst(plan, jobs, story, in_job, seed) if plan else NO_JOBS
    is_terminated = (stories.trait("job_status")[story] == TERMINATED)[tasks.job]
    runtime = runtimes(tasks, jobs, is_terminated, seed)
    plan_cpu, plan_mem = plan_cpu_mem(tasks, jobs.group, seed)
    gpus = int(machines.gpus_by_type()[incidents.RUNAWAY_TYPE])
    user, idle = incidents.runaway(plan, jobs, tasks, story, runtime, gpus, seed) if plan else (UNKNOWN, NO_JOBS)
    return Population(
        jobs, tasks, machines, story, waits(tasks, seed), runtime, plan_cpu, plan_mem, plan, burst_jobs, user, idle
    )


def _task_starts(people: Population, rng: np.random.Generator) -> NDArray[np.int64]:
    """A job's first task starts a few seconds after its submission, the others with it or just after."""
    jobs, tasks = people.jobs, people.tasks
    job_wait = np.minimum(np.exp(rng.normal(0.9, 0.9, len(jobs))), 600.0).astype(np.int64)
    is_first = np.diff(tasks.job, prepend=-1) > 0
    after = np.where(is_first, 0, rng.integers(0, 3, len(tasks)))
    return jobs.submitted_at[tasks.job] + job_wait[tasks.job] + after


def _leave_running(people: Population, first_start: NDArray[np.int64]) -> None:
    """Jobs that would end after the horizon are still running, and those that would start after it still wait."""
    job = people.tasks.job
    is_over = np.isin(stories.trait("job_status")[people.story], (TERMINATED, FAILED))
    late = np.unique(job[first_start + people.runtime_seconds * 1.2 > clock.HORIZON])
    people.story[late[is_over[late]]] = stories.NAMES.index("running")
    people.story[np.unique(job[first_start > clock.HORIZON])] = stories.NAMES.index("waiting")


def _placed(
    people: Population, rows: Attempts, rng: np.random.Generator, seed: int, report: Report
) -> tuple[IncidentPlan | None, NDArray[np.bool_]]:
    """Gives every row its machine; returns the plan as it came out and the rows the dead rack hit."""
    plan = people.plan
    is_placed = (rows.status != WAITING) & ~rows.is_rerun
    kind = np.where(is_placed, people.tasks.gpu_type[rows.task], UNKNOWN)
    has_gpu = people.tasks.has_gpu[rows.task]
    before = rows.ended_at.copy() if plan and plan.slow else rows.ended_at
    for code, name in enumerate(TYPES):
        report(f"placing instances on {name}", 0.15 + 0.05 * code)
        pool = people.machines.of_type(code)
        on_gpu, on_cpu = np.flatnonzero((kind == code) & has_gpu), np.flatnonzero((kind == code) & ~has_gpu)
        slow = plan.slow if plan and code == incidents.SLOW_TYPE else None
        _place_gpu(people, rows, on_gpu, pool, drag=slow)
        rows.machine[on_cpu] = pool[rng.integers(0, len(pool), len(on_cpu))]
        if plan and plan.rack and code == incidents.RACK_TYPE:
            # Until the rack dies, the second placement is the first one again.
            plan = incidents.with_rack(plan, rows, has_gpu, pool, seed)
            _place_gpu(people, rows, on_gpu, pool, closure=plan.rack)
            _leave_rack(rows, on_cpu, pool, plan.rack)
    if plan and plan.slow:
        incidents.peers_wait(rows, rows.ended_at > before, len(people.tasks))
    _follow_reruns(rows)
    if plan is None or plan.rack is None:
        return plan, np.zeros(len(rows), dtype=bool)
    dead = people.machines.of_type(incidents.RACK_TYPE)[plan.rack.machines]
    return plan, incidents.kill_rack(dead, plan.rack.first_second, rows, people.tasks.job)


def _place_gpu(
    people: Population,
    rows: Attempts,
    chosen: NDArray[np.int64],
    pool: NDArray[np.int64],
    *,
    closure: Closure | None = None,
    drag: Drag | None = None,
) -> None:
    if len(chosen) == 0:
        return
    started, ended = rows.started_at[chosen], rows.ended_at[chosen]
    cap = people.machines.cap_gpu[pool].astype(np.int64) * 100
    asked = people.tasks.plan_gpu[rows.task[chosen]]
    rows.machine[chosen] = pool[place(started, ended, asked, cap, closure=closure, drag=drag)]
    rows.ended_at[chosen] = ended


def _leave_rack(rows: Attempts, chosen: NDArray[np.int64], pool: NDArray[np.int64], rack: Closure | None) -> None:
    """Instances without a GPU that would start on the dead rack start elsewhere."""
    if rack is None:
        return
    started = rows.started_at[chosen]
    is_shut = (started >= rack.first_second) & (started < rack.last_second)
    shut = chosen[is_shut & np.isin(rows.machine[chosen], pool[rack.machines])]
    up = np.setdiff1d(pool, pool[rack.machines])
    rows.machine[shut] = up[np.arange(len(shut)) % len(up)]


def _follow_reruns(rows: Attempts) -> None:
    """A re-run starts where and when its first run ended."""
    again = np.flatnonzero(rows.is_rerun)
    seconds = rows.ended_at[again] - rows.started_at[again]
    rows.machine[again] = rows.machine[again - 1]
    rows.started_at[again] = rows.ended_at[again - 1]
    rows.ended_at[again] = rows.started_at[again] + seconds


def _forget_times(people: Population, rows: Attempts, hit: NDArray[np.bool_], rng: np.random.Generator) -> None:
    """Records lack times, by status, in the shares of the real file."""
    missing = published()["shares"]["missing_start"]
    rows.is_start_known[np.isin(rows.status, (INTERRUPTED, WAITING))] = False
    rows.is_end_known[np.isin(rows.status, (RUNNING, WAITING))] = False
    running = np.flatnonzero(rows.status == RUNNING)
    rows.is_start_known[rng.permutation(running)[: round(missing["Running"] / 100 * len(running))]] = False
    failed = np.flatnonzero(rows.status == FAILED)
    # An attempt that was followed by success is mostly known by its end; what the rack killed, always.
    is_retried = people.story[people.tasks.job[rows.task[failed]]] == stories.NAMES.index("retried")
    order = failed[np.argsort(rng.random(len(failed)) - 0.5 * is_retried - 9.0 * hit[failed], kind="stable")]
    cut = round(missing["Failed"] / 100 * len(failed))
    rows.is_start_known[order[:cut]] = False
    rows.is_end_known[order[cut:]] = False


def _ends(
    people: Population, rows: Attempts, job_status: NDArray[np.int8], rng: np.random.Generator
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """When tasks and jobs ended: at their last instance, or unknown while they run or wait."""
    tasks = people.tasks
    ended = np.where(np.isin(rows.status, (RUNNING, WAITING)), 0, rows.ended_at).astype(np.int64)
    first_row = np.searchsorted(rows.task, np.arange(len(tasks)))
    task_end = np.maximum.reduceat(ended, first_row)
    is_over = np.isin(job_status, (TERMINATED, FAILED))
    first_task = np.searchsorted(tasks.job, np.arange(len(people.jobs)))
    job_end = np.maximum.reduceat(task_end, first_task) + rng.integers(0, 3, len(people.jobs))
    has_end = is_over[tasks.job] & (task_end > 0)
    return np.where(has_end, task_end, UNKNOWN), np.where(is_over, job_end, UNKNOWN)
