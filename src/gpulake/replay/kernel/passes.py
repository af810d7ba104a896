"""Once through the queue: who starts now, and what is kept free for whom."""

from __future__ import annotations

import numpy as np

from gpulake.replay.kernel.arrays import (
    ACCOUNT,
    ALLOWED,
    ATTAINED,
    BEGUN,
    CHANGES,
    CONSERVATIVE,
    COUNT,
    DOWN,
    EASY,
    ESTIMATE,
    EVICT_LIST,
    EVICTED,
    EXPECTED,
    FOREVER,
    FREE,
    HEAD,
    KEPT_AT,
    KEPT_RANK,
    MACHINES,
    MILLI,
    NEVER,
    OFFSET,
    PART,
    QUEUE,
    RESERVED,
    RESERVED_AT,
    RESERVED_ROOM,
    RUN_LIST,
    RUNNING,
    SHAPE,
    SHARED,
    STAMP,
    STATIC,
    TAIL,
    USAGE,
    Ints,
    Rules,
    State,
    inner,
)  # fmt: skip
from gpulake.replay.kernel.placement import give_back, is_enough, place, put, room, take_at, unplace
from gpulake.replay.kernel.queue import enqueue, rank, start, stop

SOON = 64  # ends that are looked at first: most reservations need few


@inner
def soonest(state: State, now: int, after: int, most: int) -> Ints:
    """Running jobs that are expected to end later than `after`, by that: so many, and those that end with the last."""
    jobs = state.jobs
    running = jobs[RUN_LIST, : state.numbers[RUNNING]]
    ends = np.empty(len(running), np.int64)
    for r in range(len(running)):
        ends[r] = max(now, jobs[EXPECTED, running[r]])
    running, ends = running[ends > after], ends[ends > after]
    if len(ends) > most:
        bound = np.partition(ends, most)[most]
        running, ends = running[ends <= bound], ends[ends <= bound]
    return running[np.argsort(ends)]


@inner
def reserve(state: State, j: int, now: int) -> None:
    """Finds when the first blocked job can start if all end as expected, what is free then, and room for how many.

    That stays as it is while jobs end when they were expected to, and those that pass leave room for it.
    """
    numbers = state.numbers
    state.later_mach[:], state.later_slot[:] = state.mach, state.slot
    at, total = first_fit(state, j, now, state.later_mach, state.later_slot)
    numbers[RESERVED], numbers[RESERVED_AT], numbers[RESERVED_ROOM] = j, at, total
    numbers[CHANGES] += 1


@inner
def first_fit(state: State, j: int, now: int, later: Ints, slots: Ints) -> tuple[int, int]:
    jobs = state.jobs
    part, row = jobs[PART, j], jobs[ALLOWED, j]
    ends, total = now - 1, 0
    for m in range(state.numbers[MACHINES]):
        if state.allow[row, m] and later[MILLI, m] >= part:
            total += room(later, slots, m, part)
    running = soonest(state, now, ends, SOON)
    while len(running) > 0:
        for other in running:
            if max(now, jobs[EXPECTED, other]) > ends and total >= jobs[COUNT, j]:
                return ends, total
            ends = max(now, jobs[EXPECTED, other])
            for i in range(jobs[OFFSET, other], jobs[OFFSET, other] + jobs[COUNT, other]):
                m = state.inst[0, i]
                if state.allow[row, m]:
                    total -= room(later, slots, m, part)
                give_back(later, slots, m, jobs[PART, other], state.inst[1, i])
                if state.allow[row, m]:
                    total += room(later, slots, m, part)
        running = soonest(state, now, ends, SOON)
    return ends if total >= jobs[COUNT, j] else FOREVER, total


@inner
def backfill(state: State, rules: Rules, j: int, now: int) -> bool:
    """Starts a job behind the head of the queue if that does not delay the head."""
    jobs, numbers = state.jobs, state.numbers
    is_long = now + rules.latency + jobs[ESTIMATE, j] > numbers[RESERVED_AT]
    if is_long and jobs[KEPT_AT, jobs[SHAPE, j]] == numbers[CHANGES]:
        return False
    if not place(state, rules, j):
        return False
    if is_long and not leaves_room(state, j):
        unplace(state, j)
        jobs[KEPT_AT, jobs[SHAPE, j]] = numbers[CHANGES]
        return False
    return True


@inner
def leaves_room(state: State, j: int) -> bool:
    """Whether the head of the queue still fits if this job, which is placed, holds its GPUs then: if so, it does."""
    jobs, later, slots, head = state.jobs, state.later_mach, state.later_slot, state.numbers[RESERVED]
    row, part, left = jobs[ALLOWED, head], jobs[PART, head], state.numbers[RESERVED_ROOM]
    for i in range(jobs[OFFSET, j], jobs[OFFSET, j] + jobs[COUNT, j]):
        m = state.inst[0, i]
        if state.allow[row, m]:
            left -= room(later, slots, m, part)
        take_at(later, slots, m, jobs[PART, j], state.inst[1, i])
        if state.allow[row, m]:
            left += room(later, slots, m, part)
    if left >= jobs[COUNT, head]:
        state.numbers[RESERVED_ROOM] = left
        return True
    for i in range(jobs[OFFSET, j], jobs[OFFSET, j] + jobs[COUNT, j]):
        give_back(later, slots, state.inst[0, i], jobs[PART, j], state.inst[1, i])
    return False


@inner
def is_victim(state: State, j: int, other: int, now: int) -> bool:
    """Whether it holds what the job could use, and did not start at this moment."""
    jobs = state.jobs
    if jobs[BEGUN, other] == now:
        return False
    for i in range(jobs[OFFSET, other], jobs[OFFSET, other] + jobs[COUNT, other]):
        if state.allow[jobs[ALLOWED, j], state.inst[0, i]] and state.mach[DOWN, state.inst[0, i]] == 0:
            return True
    return False


@inner
def victims_for(state: State, rules: Rules, j: int, now: int) -> Ints:
    """Running jobs that may be displaced, none if all of them are not enough. Nothing that decides it changes between
    two starts or ends of a moment."""
    jobs = state.jobs
    own, shape = rank(state, rules, j, now), jobs[SHAPE, j]
    found, size = np.empty(state.numbers[RUNNING], np.int64), 0
    if jobs[KEPT_AT, shape] == state.numbers[STAMP] and own >= jobs[KEPT_RANK, shape]:
        return found[:0]
    later, slots = state.mach.copy(), state.slot.copy()
    for r in range(state.numbers[RUNNING]):
        other = jobs[RUN_LIST, r]
        if rank(state, rules, other, now) > own and is_victim(state, j, other, now):
            found[size] = other
            size += 1
            for i in range(jobs[OFFSET, other], jobs[OFFSET, other] + jobs[COUNT, other]):
                give_back(later, slots, state.inst[0, i], jobs[PART, other], state.inst[1, i])
    if is_enough(state, later, slots, jobs[ALLOWED, j], jobs[PART, j], jobs[COUNT, j], state.none):
        return found[:size]
    jobs[KEPT_AT, shape], jobs[KEPT_RANK, shape] = state.numbers[STAMP], own
    return found[:0]


@inner
def evict_for(state: State, rules: Rules, j: int, now: int) -> bool:
    """Displace running jobs, the highest rank first, then the last that began; none if that is not enough."""
    jobs = state.jobs
    victims = victims_for(state, rules, j, now)
    if len(victims) == 0:
        return False
    later, slots, chosen = state.mach.copy(), state.slot.copy(), 0
    while not is_enough(state, later, slots, jobs[ALLOWED, j], jobs[PART, j], jobs[COUNT, j], state.none):
        best = chosen
        for v in range(chosen + 1, len(victims)):
            one, two = victims[v], victims[best]
            ranks = rank(state, rules, one, now) - rank(state, rules, two, now)
            later_begun = jobs[BEGUN, one] - jobs[BEGUN, two]
            if ranks > 0 or (ranks == 0 and (later_begun > 0 or (later_begun == 0 and one > two))):
                best = v
        victims[chosen], victims[best] = victims[best], victims[chosen]
        other = victims[chosen]
        for i in range(jobs[OFFSET, other], jobs[OFFSET, other] + jobs[COUNT, other]):
            give_back(later, slots, state.inst[0, i], jobs[PART, other], state.inst[1, i])
        chosen += 1
    for v in range(chosen):
        stop(state, rules, victims[v], now, False, rules.order == ATTAINED)
        jobs[EVICT_LIST, state.numbers[EVICTED]] = victims[v]
        state.numbers[EVICTED] += 1
    put(state, rules, j, state.none)
    return True


@inner
def split(times: Ints, plan: Ints, size: int, at: int) -> int:
    """A row of the plan that begins at this time; the number of rows then."""
    low = size
    while low > 0 and times[low - 1] >= at:
        low -= 1
    if low < size and times[low] == at:
        return size
    for row in range(size, low, -1):
        times[row] = times[row - 1]
        plan[row] = plan[row - 1]
    times[low] = at
    plan[low] = plan[low - 1]
    return size + 1


@inner
def planned(state: State, now: int, rows: int) -> tuple[Ints, Ints, int]:
    """Free thousandths by machine, from each time on, if all that runs ends as expected."""
    jobs = state.jobs
    times = np.zeros(state.numbers[RUNNING] + 2 * rows + 2, np.int64)
    plan = np.zeros((len(times), state.numbers[MACHINES]), np.int64)
    times[0], size = now, 1
    for m in range(state.numbers[MACHINES]):
        plan[0, m] = state.mach[MILLI, m] if state.mach[DOWN, m] == 0 else 0
    for other in soonest(state, now, now - 1, state.numbers[RUNNING]):
        at = max(now, jobs[EXPECTED, other])
        if at > times[size - 1]:
            times[size] = at
            plan[size] = plan[size - 1]
            size += 1
        for i in range(jobs[OFFSET, other], jobs[OFFSET, other] + jobs[COUNT, other]):
            if state.mach[DOWN, state.inst[0, i]] == 0:
                plan[size - 1, state.inst[0, i]] += jobs[PART, other]
    return times, plan, size


@inner
def slot_of(state: State, rules: Rules, j: int, times: Ints, plan: Ints, size: int, most: Ints) -> int:
    """The first row of the plan at which a job can start and stay; row 0: it has been placed. -1: none."""
    jobs = state.jobs
    duration = rules.latency + jobs[ESTIMATE, j]
    for row in range(size):
        total = 0
        for m in range(state.numbers[MACHINES]):
            most[m] = 0
            if state.allow[jobs[ALLOWED, j], m]:
                least, end = plan[row, m], row + 1
                while end < size and times[end] < times[row] + duration:
                    least = min(least, plan[end, m])
                    end += 1
                most[m] = max(0, least) // jobs[PART, j]
                total += most[m]
        if total >= jobs[COUNT, j]:
            if row > 0:
                return row
            if is_enough(state, state.mach, state.slot, jobs[ALLOWED, j], jobs[PART, j], jobs[COUNT, j], most):
                put(state, rules, j, most.copy())
                return 0
    return -1


@inner
def plan_pass(state: State, rules: Rules, now: int, order: Ints) -> int:
    """Every job up to the depth gets a place in the plan, and no later one may take it. Looked at so many."""
    jobs = state.jobs
    times, plan, size = planned(state, now, len(order))
    most, blocked = np.zeros(state.numbers[MACHINES], np.int64), 0
    for p in range(len(order)):
        j = order[p]
        row = slot_of(state, rules, j, times, plan, size, most)
        if row >= 0:
            begin, until = times[row], times[row] + rules.latency + jobs[ESTIMATE, j]
            size = split(times, plan, size, until)
            taken = np.zeros(state.numbers[MACHINES], np.int64)
            left = jobs[COUNT, j]
            for m in range(state.numbers[MACHINES]):
                taken[m] = min(left, most[m]) if row > 0 else 0
                left -= taken[m]
            if row == 0:
                for i in range(jobs[OFFSET, j], jobs[OFFSET, j] + jobs[COUNT, j]):
                    taken[state.inst[0, i]] += 1
                start(state, rules, j, now)
            for k in range(size):
                if begin <= times[k] < until:
                    plan[k] -= taken * jobs[PART, j]
        if row != 0:
            blocked += 1
            if blocked >= rules.depth:
                return p + 1
    return len(order)


@inner
def ordered(state: State, rules: Rules, now: int) -> Ints:
    """The queue in the order of the moment."""
    jobs = state.jobs
    queue = jobs[QUEUE, state.numbers[HEAD] : state.numbers[TAIL]]
    if rules.order == STATIC:
        return queue
    keys = np.empty(len(queue), np.int64)
    for i in range(len(queue)):
        shared = jobs[USAGE, jobs[ACCOUNT, queue[i]]]
        keys[i] = shared if rules.order == SHARED else rank(state, rules, queue[i], now)
    return queue[np.argsort(keys, kind="mergesort")]


@inner
def queue_pass(state: State, rules: Rules, now: int) -> None:
    jobs = state.jobs
    numbers = state.numbers
    numbers[STAMP] += 1
    is_full = numbers[FREE] == 0 and rules.preempts == NEVER
    if numbers[HEAD] == numbers[TAIL] or is_full:
        return
    order = ordered(state, rules, now)
    is_planned = rules.mode == CONSERVATIVE
    seen = plan_pass(state, rules, now, order) if is_planned else easy_pass(state, rules, now, order)
    if rules.order != STATIC:
        seen = numbers[TAIL] - numbers[HEAD]
    # Those that started leave the queue; the others move up to those that were not looked at.
    first = numbers[HEAD]
    kept = first + seen
    for i in range(first + seen - 1, first - 1, -1):
        if jobs[BEGUN, jobs[QUEUE, i]] < 0:
            kept -= 1
            jobs[QUEUE, kept] = jobs[QUEUE, i]
    numbers[HEAD] = kept
    for i in range(numbers[EVICTED]):
        enqueue(state, jobs[EVICT_LIST, i])
    numbers[EVICTED] = 0


@inner
def admit(state: State, rules: Rules, j: int, head: int, now: int) -> bool:
    """Places a job if it fits and, behind a blocked head of the queue (-1: nothing is blocked), may pass it."""
    numbers = state.numbers
    if head >= 0 and numbers[RESERVED] == head and numbers[RESERVED_AT] >= now:
        return backfill(state, rules, j, now)
    if not place(state, rules, j):
        return False
    if head < 0:
        numbers[RESERVED] = -1
        return True
    # Worked out when the first job could pass, which is seldom.
    unplace(state, j)
    reserve(state, head, now)
    return backfill(state, rules, j, now)


@inner
def easy_pass(state: State, rules: Rules, now: int, order: Ints) -> int:
    """Jobs that fit start; with EASY those behind the first that does not must not delay it. Looked at so many."""
    numbers, head, blocked = state.numbers, -1, 0
    for p in range(len(order)):
        j = order[p]
        is_started = admit(state, rules, j, head, now)
        if not is_started and rules.preempts != NEVER:
            is_started = evict_for(state, rules, j, now)
        if is_started:
            start(state, rules, j, now)
            if numbers[FREE] == 0 and rules.preempts == NEVER:
                return p + 1
            continue
        blocked += 1
        if blocked >= rules.depth:
            return p + 1
        if rules.mode == EASY and head < 0:
            head = j
    return len(order)
