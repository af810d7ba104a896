"""The loop over events, compiled where the compiler is installed (the extra `whatif`) and plain where it is not."""

from __future__ import annotations

from pathlib import Path

from gpulake.replay.kernel.arrays import (
    AFTER,
    BEGUN,
    CHANGES,
    COUNT,
    DOWN,
    FOREVER,
    FREE,
    HAS_COMPILER,
    HEAD,
    HEAP,
    HELD,
    HOLDING,
    MILLI,
    OFFSET,
    PART,
    RESERVED,
    RUN_LIST,
    RUNNING,
    SHARED,
    SUBMIT,
    TAIL,
    USAGE,
    VERSION,
    Rules,
    State,
    inner,
)  # fmt: skip
from gpulake.replay.kernel.passes import queue_pass
from gpulake.replay.kernel.queue import enqueue, finish, is_live, pop, stop, write_log
from gpulake.replay.kernel.uncounted import uncounted


@inner
def machine_event(state: State, rules: Rules, e: int, now: int) -> None:
    jobs = state.jobs
    mach, m = state.mach, state.events[1, e]
    state.numbers[RESERVED] = -1
    state.numbers[CHANGES] += 1
    if state.events[2, e] == 0:
        mach[DOWN, m] -= 1
        if mach[DOWN, m] == 0:
            state.numbers[FREE] += mach[MILLI, m]
            state.numbers[VERSION] += 1
        return
    if mach[DOWN, m] == 0:
        r = state.numbers[RUNNING] - 1
        while r >= 0:
            j = jobs[RUN_LIST, r]
            for i in range(jobs[OFFSET, j], jobs[OFFSET, j] + jobs[COUNT, j]):
                if state.inst[0, i] == m:
                    stop(state, rules, j, now, False, False)
                    enqueue(state, j)
                    break
            r -= 1
        state.numbers[FREE] -= mach[MILLI, m]
    mach[DOWN, m] += 1


@inner
def charge(state: State, rules: Rules, before: int, now: int) -> None:
    """Accounts pay for what they hold; a half-life later it counts half."""
    jobs = state.jobs
    jobs[USAGE] += jobs[HOLDING] * (now - before)
    if rules.half_life > 0:
        for _ in range(min(62, now // rules.half_life - before // rules.half_life)):
            jobs[USAGE] //= 2


@inner
def ends(state: State, rules: Rules, now: int) -> None:
    while state.numbers[HEAP] > 0 and state.heap[0, 0] <= now:
        j, attempt = state.heap[1, 0], state.heap[2, 0]
        pop(state)
        if attempt == 0:
            enqueue(state, j)
        elif is_live(state, j, attempt):
            stop(state, rules, j, now, True, False)
            finish(state, j, now)


@inner
def next_time(state: State, arrival: int, event: int) -> int:
    jobs = state.jobs
    while state.numbers[HEAP] > 0 and not is_live(state, state.heap[1, 0], state.heap[2, 0]):
        pop(state)
    now = state.heap[0, 0] if state.numbers[HEAP] > 0 else FOREVER
    if arrival < jobs.shape[1] - 1:
        now = min(now, jobs[SUBMIT, arrival])
    if event < state.events.shape[1] and (now < FOREVER or state.numbers[HEAD] < state.numbers[TAIL]):
        now = min(now, state.events[0, event])
    return int(now)


def plain(given: State, rules: Rules, until: int) -> None:
    """Until nothing is left to happen, or to a time. The log has a row per instance of an attempt."""
    state = uncounted(given)
    jobs = state.jobs
    size = state.jobs.shape[1] - 1
    arrival, event, before = 0, 0, 0
    while True:
        while arrival < size and jobs[AFTER, arrival] >= 0:
            arrival += 1
        now = next_time(state, arrival, event)
        if now >= until:
            break
        if rules.order == SHARED:
            charge(state, rules, before, now)
        before = now
        ends(state, rules, now)
        while event < state.events.shape[1] and state.events[0, event] <= now:
            machine_event(state, rules, event, now)
            event += 1
        while arrival < size and jobs[SUBMIT, arrival] <= now:
            if jobs[AFTER, arrival] < 0:
                enqueue(state, arrival)
            arrival += 1
        queue_pass(state, rules, now)
    for r in range(state.numbers[RUNNING]):
        j = jobs[RUN_LIST, r]
        write_log(state, j, before)
        jobs[HELD, j] += (before - jobs[BEGUN, j]) * jobs[COUNT, j] * jobs[PART, j]


def compiled() -> object:
    """Compiled once for all processes: the cache belongs to this package's files, of which the compiler sees one."""
    if not HAS_COMPILER:
        return plain
    from numba import njit

    function = njit(cache=True)(plain)
    files = sorted(Path(__file__).parent.glob("*.py"))
    index = getattr(getattr(function, "_cache", None), "_cache_file", None)
    if index is not None and hasattr(index, "_source_stamp"):
        index._source_stamp = tuple((path.name, path.stat().st_mtime_ns, path.stat().st_size) for path in files)
    return function
