"""The simulator written a second time, as plainly as possible: everything is looked through at every event.

It shares no code with the kernel, only the meaning of a policy.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field

from gpulake.replay.policies import Policy
from gpulake.replay.simulation import TYPICAL
from gpulake.replay.trace import Machines, Trace, Tuning

GPU = 1000


@dataclass
class Machine:
    number: int
    gpus: int
    tier: int
    outages: int = 0
    shared: dict[int, int] = field(default_factory=dict)  # free thousandths of shared GPUs
    whole: int = 0

    def __post_init__(self) -> None:
        self.whole = self.gpus

    def copy(self) -> Machine:
        other = Machine(self.number, self.gpus, self.tier, self.outages, dict(self.shared))
        other.whole = self.whole
        return other

    @property
    def milli(self) -> int:
        return self.whole * GPU + sum(self.shared.values())

    def has_room(self, part: int) -> bool:
        return self.room(part) > 0

    def room(self, part: int) -> int:
        """By filling it."""
        if self.outages:
            return 0
        trial, found = self.copy(), 0
        while trial.whole * GPU >= part or any(left >= part for left in trial.shared.values()):
            trial.take(part)
            found += 1
        return found

    def take(self, part: int) -> int:
        if part >= GPU:
            self.whole -= part // GPU
            return -1
        fitting = [(left, slot) for slot, left in self.shared.items() if left >= part]
        slot = min(fitting)[1] if fitting else min(set(range(self.gpus)) - set(self.shared))
        if not fitting:
            self.whole -= 1
        self.shared[slot] = self.shared.get(slot, GPU) - part
        return slot

    def take_at(self, part: int, slot: int) -> None:
        if slot < 0:
            self.whole -= part // GPU
            return
        if slot not in self.shared:
            self.whole -= 1
        self.shared[slot] = self.shared.get(slot, GPU) - part

    def give_back(self, part: int, slot: int) -> None:
        if slot < 0:
            self.whole += part // GPU
            return
        self.shared[slot] += part
        if self.shared[slot] == GPU:
            del self.shared[slot]
            self.whole += 1

    def fragments(self, typical: list[tuple[int, int]]) -> int:
        total = 0
        for part, weight in typical:
            useless = self.milli if not self.has_room(part) else sum(x for x in self.shared.values() if x < part)
            total += useless * weight
        return total


class Twin:
    def __init__(self, trace: Trace, machines: Machines, policy: Policy, tuning: Tuning) -> None:
        self.trace, self.policy, self.tuning = trace, policy, tuning
        self.allow = machines.allow
        self.machines = [Machine(m, int(g), int(machines.tier[m])) for m, g in enumerate(machines.gpus)]
        self.outages = list(zip(machines.out_machine, machines.out_from, machines.out_until, strict=True))
        size = len(trace)
        depths = [depth for depth in (tuning.depth, policy.depth) if depth]
        self.depth = min(depths) if depths else size + 1
        self.estimate = trace.predicted if policy.has_predictions else trace.estimate
        self.key = policy.key(trace)
        counts: dict[int, int] = defaultdict(int)
        for part in trace.part:
            counts[int(part)] += 1
        self.typical = sorted(counts.items(), key=lambda one: (-one[1], one[0]))[:TYPICAL]
        self.levels = [round(hours * 3600 * GPU) for hours in tuning.level_gpu_hours]
        self.queue: list[int] = []
        self.where: dict[int, list[tuple[int, int]]] = {}
        self.begun: dict[int, int] = {}
        self.ends: dict[int, int] = {}
        self.left = [int(work) for work in trace.work]
        self.usage: dict[int, int] = defaultdict(int)
        self.start, self.end = [-1] * size, [-1] * size
        self.tries, self.held, self.lost = [0] * size, [0] * size, [0] * size
        self.log: list[tuple[int, int, int, int, int, int]] = []

    # What fits where

    def allowed(self, j: int) -> list[int]:
        row = self.trace.allowed[j]
        return [m for m in range(len(self.machines)) if self.allow[row, m]]

    def fits(self, j: int, machines: list[Machine], most: dict[int, int] | None = None) -> bool:
        part = int(self.trace.part[j])
        rooms = {m: machines[m].room(part) for m in self.allowed(j)}
        if most is not None:
            rooms = {m: min(rooms[m], most[m]) for m in rooms}
        return sum(rooms.values()) >= int(self.trace.count[j])

    def score(self, machine: Machine, j: int) -> int:
        placement, part = self.policy.placement, int(self.trace.part[j])
        if placement == "first":
            return 0
        if placement == "best":
            return machine.milli
        if placement == "worst":
            return -machine.milli
        if placement == "pack":
            is_high = self.trace.count[j] * part >= 8 * GPU
            return machine.milli + (0 if is_high == (machine.tier > 0) else 10**12)
        trial = machine.copy()
        trial.take(part)
        return trial.fragments(self.typical) - machine.fragments(self.typical)

    def place(self, j: int, most: dict[int, int] | None = None) -> list[tuple[int, int]]:
        part, placed = int(self.trace.part[j]), []
        most = dict(most) if most is not None else None
        for _ in range(self.trace.count[j]):
            options = [m for m in self.allowed(j) if self.machines[m].has_room(part)]
            options = [m for m in options if most is None or most[m] > 0]
            best = min(options, key=lambda m: (self.score(self.machines[m], j), m))
            if most is not None:
                most[best] -= 1
            placed.append((best, self.machines[best].take(part)))
        return placed

    # Starts and stops

    def begin(self, j: int, placed: list[tuple[int, int]], now: int) -> None:
        tuning = self.tuning
        self.where[j], self.begun[j] = placed, now
        self.tries[j] += 1
        if self.start[j] < 0:
            self.start[j] = now + tuning.latency_seconds
        run = self.left[j] + (tuning.restart_seconds if self.tries[j] > 1 else 0)
        if self.trace.limit[j]:
            run = min(run, int(self.trace.limit[j]))
        self.ends[j] = now + tuning.latency_seconds + run

    def stop(self, j: int, now: int, is_done: bool, keeps: bool = False) -> None:
        ran, milli = now - self.begun.pop(j), int(self.trace.count[j] * self.trace.part[j])
        self.held[j] += ran * milli
        for m, slot in self.where.pop(j):
            self.machines[m].give_back(int(self.trace.part[j]), slot)
            self.log.append((j, m, slot, now - ran, now, int(self.trace.part[j])))
        del self.ends[j]
        if is_done:
            return
        tuning = self.tuning
        worked = max(0, ran - tuning.latency_seconds - (tuning.restart_seconds if self.tries[j] > 1 else 0))
        every = tuning.checkpoint_seconds
        kept = worked if keeps else (worked // every * every if every else 0)
        self.left[j] -= kept
        self.lost[j] += (ran - kept) * milli

    def rank(self, j: int, now: int) -> int:
        if self.policy.order != "attained":
            return int(self.trace.rank[j])
        milli = int(self.trace.count[j] * self.trace.part[j])
        attained = self.held[j] + ((now - self.begun[j]) * milli if j in self.begun else 0)
        return sum(attained >= bound for bound in self.levels)

    def expected(self, j: int, now: int) -> int:
        return max(now, self.begun[j] + self.tuning.latency_seconds + int(self.estimate[j]))

    # The pass

    def in_order(self, now: int) -> list[int]:
        def key(j: int) -> tuple[int, int, int]:
            first = {"static": 0, "attained": self.rank(j, now), "shared": self.usage[int(self.trace.account[j])]}
            return first[self.policy.order], int(self.key[j]), j

        return sorted(self.queue, key=key)

    def run_pass(self, now: int) -> None:
        if self.policy.passes == "conservative":
            self.conservative(now)
            return
        blocked: list[int] = []
        evicted: list[int] = []
        later: list[Machine] = []
        shadow = 0
        for j in self.in_order(now):
            placed = None
            if self.fits(j, self.machines):
                placed = self.place(j)
                if later and not self.may_pass(j, placed, blocked[0], later, shadow, now):
                    placed = None
            elif self.policy.preempts != "never":
                evicted += (victims := self.victims(j, now))
                for victim in victims:
                    self.stop(victim, now, is_done=False, keeps=self.policy.order == "attained")
                placed = self.place(j) if victims else None
            if placed is not None:
                self.queue.remove(j)
                self.begin(j, placed, now)
                continue
            blocked.append(j)
            if len(blocked) == self.depth:
                break
            if len(blocked) == 1 and self.policy.passes == "easy":
                shadow, later = self.reservation(j, now)
        self.queue += evicted

    def reservation(self, j: int, now: int) -> tuple[int, list[Machine]]:
        """The first expected end by which the job fits, and what is free once all that end by then are gone."""
        for at in sorted({self.expected(other, now) for other in self.begun}):
            later = [machine.copy() for machine in self.machines]
            for other in self.begun:
                if self.expected(other, now) <= at:
                    for m, slot in self.where[other]:
                        later[m].give_back(int(self.trace.part[other]), slot)
            if self.fits(j, later):
                return at, later
        return 1 << 62, [machine.copy() for machine in self.machines]

    def may_pass(
        self, j: int, placed: list[tuple[int, int]], head: int, later: list[Machine], shadow: int, now: int
    ) -> bool:
        if now + self.tuning.latency_seconds + self.estimate[j] <= shadow:
            return True
        for m, slot in placed:
            later[m].take_at(int(self.trace.part[j]), slot)
        if self.fits(head, later):
            return True
        for m, slot in placed:
            later[m].give_back(int(self.trace.part[j]), slot)
            self.machines[m].give_back(int(self.trace.part[j]), slot)
        return False

    def victims(self, j: int, now: int) -> list[int]:
        mine = {m for m in self.allowed(j) if not self.machines[m].outages}
        candidates = [
            other
            for other in self.begun
            if self.rank(other, now) > self.rank(j, now)
            and self.begun[other] != now
            and any(m in mine for m, _ in self.where[other])
        ]
        candidates.sort(key=lambda one: (self.rank(one, now), self.begun[one], one), reverse=True)
        later = [machine.copy() for machine in self.machines]
        for size, other in enumerate(candidates, 1):
            for m, slot in self.where[other]:
                later[m].give_back(int(self.trace.part[other]), slot)
            if self.fits(j, later):
                return candidates[:size]
        return []

    def conservative(self, now: int) -> None:  # noqa: C901 - one thing, told in one place
        planned: list[tuple[int, int, int, int]] = []  # machine, from, until, thousandths

        def free(m: int, at: int) -> int:
            if self.machines[m].outages:
                return 0
            back = sum(
                int(self.trace.part[other])
                for other, where in running.items()
                for machine, _ in where
                if machine == m and ends[other] <= at
            )
            taken = sum(milli for machine, first, last, milli in planned if machine == m and first <= at < last)
            return base[m] + back - taken

        running = {other: list(where) for other, where in self.where.items()}
        ends = {other: self.expected(other, now) for other in running}
        base = [machine.milli for machine in self.machines]
        blocked = 0
        for j in self.in_order(now):
            part, span = int(self.trace.part[j]), self.tuning.latency_seconds + int(self.estimate[j])
            times = sorted({now, *ends.values(), *(t for _, first, last, _ in planned for t in (first, last))})
            for at in times:
                inside = [t for t in times if at <= t < at + span]
                most = {m: max(0, min(free(m, t) for t in inside)) // part for m in self.allowed(j)}
                if sum(most.values()) < self.trace.count[j]:
                    continue
                if at == now:
                    if not self.fits(j, self.machines, most):
                        continue
                    placed = self.place(j, most)
                    self.queue.remove(j)
                    self.begin(j, placed, now)
                    planned += [(m, now, now + span, part) for m, _ in placed]
                    break
                left = int(self.trace.count[j])
                for m in sorted(most):
                    planned.append((m, at, at + span, part * min(left, most[m])))
                    left -= min(left, most[m])
                break
            if j not in self.begun:
                blocked += 1
                if blocked == self.depth:
                    return

    # The loop

    def run(self) -> None:
        trace = self.trace
        waiting = {j: int(trace.submit[j]) for j in range(len(trace)) if trace.after[j] < 0}
        dependents = {j for j in range(len(trace)) if trace.after[j] >= 0}
        before = -1
        outage_times = [int(at) for _, *times in self.outages for at in times]
        while True:
            moments = [*waiting.values(), *self.ends.values()]
            if moments or self.queue:
                moments += [at for at in outage_times if at > before]
            if not moments:
                return
            now = min(moments)
            self.charge(before, now)
            self.moment(now, waiting, dependents)
            before = now

    def charge(self, before: int, now: int) -> None:
        for j in self.begun:
            self.usage[int(self.trace.account[j])] += (now - before) * int(self.trace.count[j] * self.trace.part[j])
        half = self.tuning.half_life_seconds
        for _ in range(now // half - before // half):
            for account in self.usage:
                self.usage[account] //= 2

    def moment(self, now: int, waiting: dict[int, int], dependents: set[int]) -> None:
        for j in [j for j, at in self.ends.items() if at == now]:
            self.stop(j, now, is_done=True)
            self.end[j] = now
            for other in sorted(dependents):
                if self.trace.after[other] == j:
                    waiting[other] = max(now, int(self.trace.submit[other]))
                    dependents.remove(other)
        for m, _, until in self.outages:
            self.machines[m].outages -= int(until == now)
        for m, begin, _ in self.outages:
            if begin == now:
                for j in [j for j, where in self.where.items() if any(machine == m for machine, _ in where)]:
                    self.stop(j, now, is_done=False)
                    self.queue.append(j)
                self.machines[m].outages += 1
        for j in [j for j, at in waiting.items() if at == now]:
            self.queue.append(j)
            del waiting[j]
        self.run_pass(now)
