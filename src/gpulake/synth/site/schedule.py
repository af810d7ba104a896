"""Where and when jobs run: a queue, nodes with GPUs, preemption, and nodes that go out of service.

By priority, then first come, first served; smaller jobs pass a larger one until it has waited for hours, then nodes are
kept free for it. What a node that dies ran is lost and queued again; so is what a job of the QOS `high` displaces.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass, replace
from itertools import count
from typing import Any

from gpulake.synth.site.jobs import Request
from gpulake.synth.site.plan import HOUR_SECONDS, Outage, Plan

PATIENT_SECONDS = 4 * HOUR_SECONDS  # after which nodes are kept free for the first of the queue
RANK = {"high": 0, "normal": 1, "scavenger": 2}
END, DOWN, UP, SUBMIT, CANCEL, TRY = range(6)  # in this order, at one moment


@dataclass(slots=True)
class Run:
    """An attempt of a job: which GPUs of which nodes, from when to when (None: it still runs), and how it ended."""

    request: Request
    attempt: int
    submitted_at: int
    started_at: int
    nodes: tuple[int, ...]
    devices: tuple[tuple[int, ...], ...]
    ended_at: int | None = None
    state: str = "RUNNING"

    @property
    def gpus(self) -> int:
        return sum(len(devices) for devices in self.devices)


@dataclass(frozen=True, slots=True)
class Unstarted:
    """A job that waits, or was cancelled while it did."""

    request: Request
    attempt: int
    submitted_at: int
    ended_at: int | None = None


@dataclass(frozen=True)
class History:
    runs: tuple[Run, ...]
    unstarted: tuple[Unstarted, ...]
    outages: tuple[Outage, ...]  # drained nodes from when their last job had ended


def scheduled(plan: Plan, requests: list[Request]) -> History:
    return _Scheduler(plan).run(requests)


class _Scheduler:
    def __init__(self, plan: Plan) -> None:
        site = plan.site
        self._plan = plan
        self._ends_at = site.ends_at
        self._free = [set(range(site.gpus)) for _ in range(site.nodes)]
        self._closed = [0] * site.nodes  # how many outages it is in
        self._here: list[dict[int, Run]] = [{} for _ in range(site.nodes)]
        self._queue: list[Unstarted] = []
        self._events: list[tuple[int, int, int, Any]] = []
        self._order = count()
        self._runs: list[Run] = []
        self._cancelled: list[Unstarted] = []
        self._maintenance = [outage for outage in plan.outages if outage.state == "MAINT"]
        self._stuck = [(one.first_second, one.last_second) for one in plan.of_kind("stuck_queue")]

    def run(self, requests: list[Request]) -> History:
        for outage in self._plan.outages:
            self._at(outage.started_at, DOWN, outage)
            self._at(outage.ended_at, UP, outage)
        for request in requests:
            self._at(request.submitted_at, SUBMIT, Unstarted(request, 0, request.submitted_at))
        for _, last in self._stuck:
            self._at(last, TRY, None)
        acts = (self._end, self._down, self._up, self._submit, self._cancel, lambda now, _: self._start_all(now))
        while self._events and self._events[0][0] < self._ends_at:
            now, kind, _, what = heapq.heappop(self._events)
            acts[kind](now, what)
        outages = tuple(in_force for one in self._plan.outages if (in_force := self._in_force(one)))
        return History(tuple(self._runs), (*self._cancelled, *self._queue), outages)

    def _at(self, second: int, kind: int, what: Any) -> None:
        heapq.heappush(self._events, (second, kind, next(self._order), what))

    def _in_force(self, outage: Outage) -> Outage | None:
        """A node that is drained runs its jobs to their end, and is out of service from then on."""
        ends = [run.ended_at or self._ends_at for run in self._runs if outage.node in run.nodes
                and run.started_at < outage.started_at]  # fmt: skip
        first = max([outage.started_at, *ends]) if outage.state == "DRAIN" else outage.started_at
        last = min(outage.ended_at, self._ends_at)
        return replace(outage, started_at=first, ended_at=last) if first < last else None

    def _submit(self, now: int, job: Unstarted) -> None:
        self._at(now + job.request.patience_seconds, CANCEL, job)
        if not self._start(now, job, self._reserved(now)):
            self._queue.append(job)
            self._queue.sort(key=lambda job: (RANK[job.request.qos], job.submitted_at, job.request.number))

    def _cancel(self, now: int, job: Unstarted) -> None:
        if any(waiting is job for waiting in self._queue):
            self._queue = [waiting for waiting in self._queue if waiting is not job]
            self._cancelled.append(replace(job, ended_at=now))

    def _end(self, now: int, run: Run) -> None:
        if run.ended_at is None:
            request = run.request
            self._stop(now, run, "TIMEOUT" if request.seconds >= request.limit_seconds else request.ending)
            self._start_all(now)

    def _down(self, now: int, outage: Outage) -> None:
        self._closed[outage.node] += 1
        if outage.state == "DOWN":
            for run in list(self._here[outage.node].values()):
                self._stop(now, run, "NODE_FAIL")
                self._requeue(now, run)

    def _up(self, now: int, outage: Outage) -> None:
        self._closed[outage.node] -= 1
        self._start_all(now)

    def _stop(self, now: int, run: Run, state: str) -> None:
        run.ended_at, run.state = now, state
        for node, devices in zip(run.nodes, run.devices, strict=True):
            self._free[node].update(devices)
            del self._here[node][id(run)]

    def _requeue(self, now: int, run: Run) -> None:
        # Slurm shows the second of the requeue as that of the next submission.
        self._at(now + 1, SUBMIT, Unstarted(run.request, run.attempt + 1, now + 1))

    def _start_all(self, now: int) -> None:
        reserved = self._reserved(now)
        room = max((len(free) for free, closed in zip(self._free, self._closed, strict=True) if not closed), default=0)
        for job in list(self._queue):
            if (job.request.gpus <= room or not job.request.gpus) and self._start(now, job, reserved):
                self._queue.remove(job)

    def _reserved(self, now: int) -> tuple[Unstarted | None, set[int]]:
        """The job that has waited too long, and the nodes that are kept for it: those that are free soonest."""
        late = [job for job in self._queue if now - job.submitted_at > PATIENT_SECONDS and not self._is_stuck(now, job)]
        if not late:
            return None, set()
        job = late[0]
        soonest = sorted(range(len(self._free)), key=lambda node: (self._closed[node] > 0, self._free_at(node), node))
        return job, set(soonest[: job.request.nodes])

    def _free_at(self, node: int) -> int:
        return max((run.started_at + run.request.limit_seconds for run in self._here[node].values()), default=0)

    def _is_stuck(self, now: int, job: Unstarted) -> bool:
        return job.request.partition == "gpu" and any(first <= now < last for first, last in self._stuck)

    def _start(self, now: int, job: Unstarted, reserved: tuple[Unstarted | None, set[int]]) -> bool:
        if self._is_stuck(now, job):
            return False
        kept = set() if reserved[0] is job else reserved[1]
        nodes = self._fitting(now, job.request, kept) or self._preempted(now, job.request)
        if not nodes:
            return False
        devices = []
        for node in nodes:
            devices.append(tuple(sorted(self._free[node])[: job.request.gpus]))
            self._free[node].difference_update(devices[-1])
        run = Run(job.request, job.attempt, job.submitted_at, now, nodes, tuple(devices))
        for node in nodes:
            self._here[node][id(run)] = run
        self._runs.append(run)
        self._at(now + min(job.request.seconds, job.request.limit_seconds), END, run)
        return True

    def _fitting(self, now: int, request: Request, kept: set[int]) -> tuple[int, ...]:
        """The fullest nodes that have room: whole ones stay free for those that need them."""
        fitting = [
            node
            for node, free in enumerate(self._free)
            if len(free) >= request.gpus and node not in kept and self._is_open(node, now, request.limit_seconds)
        ]
        fitting.sort(key=lambda node: len(self._free[node]))
        return tuple(sorted(fitting[: request.nodes])) if len(fitting) >= request.nodes else ()

    def _is_open(self, node: int, now: int, seconds: int) -> bool:
        """In service, and not under maintenance before the job's limit."""
        return not self._closed[node] and not any(
            outage.node == node and outage.started_at < now + seconds and now < outage.ended_at
            for outage in self._maintenance
        )

    def _preempted(self, now: int, request: Request) -> tuple[int, ...]:
        """Nodes of which scavengers are displaced for a job of the QOS high."""
        if request.qos != "high":
            return ()
        room = {}
        for node, free in enumerate(self._free):
            guests = [run for run in self._here[node].values() if run.request.qos == "scavenger"]
            if len(free) + sum(run.gpus for run in guests) >= request.gpus and self._is_open(
                node, now, request.limit_seconds
            ):
                room[node] = guests
        if len(room) < request.nodes:
            return ()
        nodes = sorted(room, key=lambda node: (len(room[node]), node))[: request.nodes]
        for node in nodes:
            for run in room[node]:
                self._stop(now, run, "PREEMPTED")
                self._requeue(now, run)
        return tuple(sorted(nodes))
