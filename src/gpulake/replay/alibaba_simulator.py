"""The simulator that Alibaba published with the PAI trace (cluster-trace-gpu-v2020/simulator), by its own rules.

One big node, whose GPUs and CPUs are counted in hundredths. Jobs are tried in the order of a policy; one that does not
fit is passed over, a gang starts whole or not at all, nothing is preempted. The original steps through every second;
here time jumps from event to event, with the same table to the last digit:

- At a second, jobs that end release what they held, then jobs arrive, then waiting ones are tried once, in order.
- Ties go to the smaller job id. A duration below a second counts as one, an instance larger than the node as the node.
- A gang counts in the means once for each instance. The makespan is one second after the last end.
- With an arrival rate, jobs come in their order of submission, that many at the begin of each minute.
"""

from __future__ import annotations

import csv
import math
import random
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from heapq import heappop, heappush
from pathlib import Path

from gpulake.core.errors import InputError, UsageError

GPUS, CPUS_OF_A_GPU, JOBS, JOBS_A_MINUTE, SEED = 6500, 23.22, 20_000, 1000, 42  # as published
# The columns that a policy sorts by; of the others, the first three lean on an estimate in the file.
POLICIES = {"SJF": "duration", "SJU": "user_dur", "SJG": "group_dur", "SJGG": "group_gpu_dur", "FIFO": "submit_time"}
ESTIMATES = ("user_dur", "user_gpu_dur", "group_dur", "group_gpu_dur")
COLUMNS = ("job_id", "user", "gpu_type", "submit_time", "duration", "num_inst", "num_cpu", "num_gpu", "wait_time")
ROWS_READ = 10  # times the jobs that are simulated


@dataclass(frozen=True)
class SimulatorJob:
    """Demand is that of an instance, in hundredths of a GPU and of a core; times are whole seconds."""

    job_id: int | str
    submit_time: int
    duration: int
    num_inst: int
    num_gpu: int
    num_cpu: int
    estimates: Mapping[str, float]


@dataclass(frozen=True)
class PolicyOutcome:
    """Means over instances, in seconds. A job's completion time runs from its submission to its end."""

    policy: str
    jobs_done: int
    mean_completion_seconds: float
    mean_wait_seconds: float
    makespan_seconds: int


def read_jobs(path: Path, jobs: int = JOBS) -> list[SimulatorJob]:
    with path.open(encoding="utf-8-sig", errors="replace", newline="") as file:
        rows = csv.DictReader(file)
        if missing := [name for name in ("job_id", "duration") if name not in (rows.fieldnames or ())]:
            raise InputError(
                f"{path.name} has no column {missing[0]!r}", f"a file of this simulator has: {', '.join(COLUMNS)}"
            )
        found = []
        for row in rows:
            try:
                found.append(job_of(row))
            except (ValueError, OverflowError) as error:
                raise InputError(
                    f"line {rows.line_num} of {path.name}: {error}", "times and sizes are numbers"
                ) from None
            if len(found) > ROWS_READ * jobs:
                break
    return found


def job_of(row: Mapping[str, str]) -> SimulatorJob:
    def number(name: str, default: float) -> float:
        return float(row[name]) if row.get(name) else default

    if number("num_inst", 1) < 1 or number("num_gpu", 0) < 0 or number("num_cpu", 0) < 0:
        raise ValueError("less than one instance, or a negative demand")
    return SimulatorJob(
        int(row["job_id"]) if row["job_id"].isdigit() else row["job_id"],
        round(number("submit_time", 1)),
        max(1, int(float(row["duration"]))),
        round(number("num_inst", 1)),
        round(100 * number("num_gpu", 0)),
        round(100 * number("num_cpu", 0)),
        {name: float(row[name]) for name in ESTIMATES if row.get(name)},
    )


def chosen_jobs(
    found: Sequence[SimulatorJob], jobs: int = JOBS, jobs_a_minute: int = JOBS_A_MINUTE, seed: int = SEED
) -> list[SimulatorJob]:
    """As many at random, in the order and with the times that they arrive; without a rate, at the file's times."""
    kept = list(found)
    if jobs <= len(kept):
        random.Random(seed).shuffle(kept)
        del kept[jobs:]
    if jobs_a_minute <= 0:
        return kept
    kept.sort(key=lambda job: (job.submit_time, job.job_id))
    return [replace(job, submit_time=place // jobs_a_minute * 60) for place, job in enumerate(kept)]


def simulate(jobs: Sequence[SimulatorJob], policy: str, gpus: int = GPUS, cpus: int | None = None) -> PolicyOutcome:
    """One policy on one cluster. Unless given, there are as many CPUs to a GPU as PAI has."""
    idle = [100 * gpus, 100 * (round(CPUS_OF_A_GPU * gpus) if cpus is None else cpus)]
    order = _order(jobs, policy)
    needs = [
        (job.num_inst * min(job.num_gpu, idle[0]), job.num_inst * min(job.num_cpu, idle[1]))
        for job in (jobs[place] for place in order)
    ]
    for place, need in zip(order, needs, strict=True):
        if need[0] > idle[0] or need[1] > idle[1]:
            job = jobs[place]
            words = (
                f"job {job.job_id} needs {job.num_inst} × {job.num_gpu / 100:g} GPUs and {job.num_cpu / 100:g} cores"
            )
            raise UsageError(f"{words}, which never fit", "raise --gpus, or leave the job out")
    waiting = FirstFit(needs)
    arrivals = sorted(range(len(order)), key=lambda rank: -jobs[order[rank]].submit_time)
    running: list[tuple[int, int]] = []  # end and rank
    now = done = completion = wait = 0
    while arrivals or running:
        comes = jobs[order[arrivals[-1]]].submit_time if arrivals else None
        now = max(now, min(at for at in (comes, running[0][0] if running else None) if at is not None))
        while running and running[0][0] <= now:
            need = needs[heappop(running)[1]]
            idle[0], idle[1] = idle[0] + need[0], idle[1] + need[1]
        while arrivals and jobs[order[arrivals[-1]]].submit_time <= now:
            waiting.add(arrivals.pop())
        rank = 0
        while (idle[0] > 0 or idle[1] > 0) and (fit := waiting.first(rank, *idle)) is not None:
            rank, job = fit, jobs[order[fit]]
            waiting.remove(rank)
            idle[0], idle[1] = idle[0] - needs[rank][0], idle[1] - needs[rank][1]
            heappush(running, (now + job.duration, rank))
            done += job.num_inst
            wait += job.num_inst * (now - job.submit_time)
            completion += job.num_inst * (now + job.duration - job.submit_time)
    if not done:
        raise InputError("there is no job to simulate", "the file has no rows")
    return PolicyOutcome(policy, done, completion / done, wait / done, now + 1)


def _order(jobs: Sequence[SimulatorJob], policy: str) -> list[int]:
    column = POLICIES[policy]
    if column in ESTIMATES and (lacking := next((job for job in jobs if column not in job.estimates), None)):
        raise InputError(
            f"job {lacking.job_id} has no {column}, by which {policy} sorts", "leave the policy out with --policy"
        )
    try:
        return sorted(
            range(len(jobs)),
            key=lambda place: (
                jobs[place].estimates[column] if column in ESTIMATES else getattr(jobs[place], column),
                jobs[place].job_id,
            ),
        )
    except TypeError:
        raise InputError("some job ids are numbers and some are not", "number them all") from None


class FirstFit:
    """The first waiting job, in the order of the policy, that fits: a tree of the least demands below each node."""

    def __init__(self, needs: Iterable[tuple[int, int]]) -> None:
        self._needs = list(needs)
        self._size = 1 << max(0, len(self._needs) - 1).bit_length()
        self._least: tuple[list[float], list[float]] = (
            [float("inf")] * 2 * self._size,
            [float("inf")] * 2 * self._size,
        )

    def add(self, rank: int) -> None:
        self._set(rank, *self._needs[rank])

    def remove(self, rank: int) -> None:
        self._set(rank, math.inf, math.inf)

    def first(self, rank: int, gpus: int, cpus: int) -> int | None:
        """From this rank on."""
        least_gpus, least_cpus = self._least
        node = rank + self._size
        while True:
            if least_gpus[node] <= gpus and least_cpus[node] <= cpus:
                if node >= self._size:
                    return node - self._size
                node *= 2
                continue
            while node & 1:  # all of what is above it to the right has been seen
                node >>= 1
            if not node:
                return None
            node += 1

    def _set(self, rank: int, gpus: float, cpus: float) -> None:
        for least, need in zip(self._least, (gpus, cpus), strict=True):
            node = rank + self._size
            least[node] = need
            while node := node >> 1:
                least[node] = min(least[2 * node], least[2 * node + 1])
