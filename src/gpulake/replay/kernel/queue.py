"""The queue, the ends to come, and the running jobs."""

from __future__ import annotations

from gpulake.replay.kernel.arrays import (
    ACCOUNT,
    ATTAINED,
    BASE,
    BEGUN,
    CHANGES,
    CHILD,
    COUNT,
    END,
    ESTIMATE,
    EXPECTED,
    HEAD,
    HEAP,
    HELD,
    HOLDING,
    KEY,
    LEFT,
    LIMIT,
    LOGGED,
    LOST,
    OFFSET,
    PART,
    POSITION,
    QUEUE,
    RANK,
    RESERVED,
    RUN_LIST,
    RUNNING,
    SIBLING,
    STAMP,
    START,
    SUBMIT,
    TAIL,
    TRIES,
    VERSION,
    Rules,
    State,
    inner,
)  # fmt: skip
from gpulake.replay.kernel.placement import unplace


@inner
def enqueue(state: State, j: int) -> None:
    jobs = state.jobs
    queue, numbers = jobs[QUEUE], state.numbers
    if numbers[TAIL] == len(queue):
        size = numbers[TAIL] - numbers[HEAD]
        for i in range(size):
            queue[i] = queue[numbers[HEAD] + i]
        numbers[HEAD], numbers[TAIL] = 0, size
    low, high = numbers[HEAD], numbers[TAIL]
    while low < high:
        middle = (low + high) // 2
        other = queue[middle]
        if jobs[KEY, other] < jobs[KEY, j] or (jobs[KEY, other] == jobs[KEY, j] and other < j):
            low = middle + 1
        else:
            high = middle
    for i in range(numbers[TAIL], low, -1):
        queue[i] = queue[i - 1]
    queue[low] = j
    numbers[TAIL] += 1


@inner
def is_live(state: State, j: int, attempt: int) -> bool:
    jobs = state.jobs
    return bool(attempt == 0 or (attempt == jobs[TRIES, j] and jobs[BEGUN, j] >= 0))


@inner
def drop_stale(state: State) -> None:
    """Ends of attempts that were displaced or failed: they are left in the heap until it is full."""
    size = state.numbers[HEAP]
    state.numbers[HEAP] = 0
    for i in range(size):
        at, j, attempt = state.heap[0, i], state.heap[1, i], state.heap[2, i]
        if is_live(state, j, attempt):
            sift(state, at, j, attempt)


@inner
def push(state: State, at: int, j: int, attempt: int) -> None:
    """Attempt 0: the job arrives then."""
    if state.numbers[HEAP] == state.heap.shape[1]:
        drop_stale(state)
    sift(state, at, j, attempt)


@inner
def sift(state: State, at: int, j: int, attempt: int) -> None:
    i = state.numbers[HEAP]
    state.numbers[HEAP] += 1
    while i > 0:
        parent = (i - 1) // 2
        if state.heap[0, parent] <= at:
            break
        state.heap[0, i], state.heap[1, i], state.heap[2, i] = (
            state.heap[0, parent], state.heap[1, parent], state.heap[2, parent],
        )  # fmt: skip
        i = parent
    state.heap[0, i], state.heap[1, i], state.heap[2, i] = at, j, attempt


@inner
def pop(state: State) -> None:
    state.numbers[HEAP] -= 1
    size = state.numbers[HEAP]
    at, j, attempt = state.heap[0, size], state.heap[1, size], state.heap[2, size]
    i = 0
    while 2 * i + 1 < size:
        child = 2 * i + 1
        if child + 1 < size and state.heap[0, child + 1] < state.heap[0, child]:
            child += 1
        if state.heap[0, child] >= at:
            break
        state.heap[0, i], state.heap[1, i], state.heap[2, i] = (
            state.heap[0, child], state.heap[1, child], state.heap[2, child],
        )  # fmt: skip
        i = child
    state.heap[0, i], state.heap[1, i], state.heap[2, i] = at, j, attempt


@inner
def start(state: State, rules: Rules, j: int, now: int) -> None:
    """A job that has been placed."""
    jobs = state.jobs
    jobs[TRIES, j] += 1
    if jobs[START, j] < 0:
        jobs[START, j] = now + rules.latency
    jobs[BEGUN, j] = now
    state.numbers[STAMP] += 1
    state.numbers[CHANGES] += 1
    run = jobs[LEFT, j] + (rules.restart if jobs[TRIES, j] > 1 else 0)
    if jobs[LIMIT, j] > 0:
        run = min(run, jobs[LIMIT, j])
    push(state, now + rules.latency + run, j, jobs[TRIES, j])
    jobs[EXPECTED, j] = now + rules.latency + jobs[ESTIMATE, j]
    jobs[RUN_LIST, state.numbers[RUNNING]] = j
    jobs[POSITION, j] = state.numbers[RUNNING]
    state.numbers[RUNNING] += 1
    jobs[HOLDING, jobs[ACCOUNT, j]] += jobs[COUNT, j] * jobs[PART, j]


@inner
def write_log(state: State, j: int, now: int) -> None:
    jobs = state.jobs
    for i in range(jobs[OFFSET, j], jobs[OFFSET, j] + jobs[COUNT, j]):
        row = state.numbers[LOGGED]
        if row < len(state.log):
            slot = state.inst[1, i] - state.mach[BASE, state.inst[0, i]] if state.inst[1, i] >= 0 else -1
            state.log[row, 0], state.log[row, 1], state.log[row, 2] = j, state.inst[0, i], slot
            state.log[row, 3], state.log[row, 4], state.log[row, 5] = jobs[BEGUN, j], now, jobs[PART, j]
            state.numbers[LOGGED] += 1


@inner
def stop(state: State, rules: Rules, j: int, now: int, is_done: bool, keeps: bool) -> None:
    """An attempt ends: its job is done, or goes back into the queue with what its checkpoints kept."""
    jobs = state.jobs
    milli, ran = jobs[COUNT, j] * jobs[PART, j], now - jobs[BEGUN, j]
    jobs[HELD, j] += ran * milli
    write_log(state, j, now)
    unplace(state, j)
    state.numbers[VERSION] += 1
    state.numbers[STAMP] += 1
    state.numbers[CHANGES] += 1
    if now < jobs[EXPECTED, j]:
        state.numbers[RESERVED] = -1
    state.numbers[RUNNING] -= 1
    last = state.numbers[RUNNING]
    moved = jobs[RUN_LIST, last]
    jobs[RUN_LIST, jobs[POSITION, j]] = moved
    jobs[POSITION, moved] = jobs[POSITION, j]
    jobs[HOLDING, jobs[ACCOUNT, j]] -= milli
    kept = max(0, ran - rules.latency - (rules.restart if jobs[TRIES, j] > 1 else 0))
    if not keeps:
        kept = kept // rules.checkpoint * rules.checkpoint if rules.checkpoint > 0 else 0
    if not is_done:
        jobs[LOST, j] += (ran - kept) * milli
        jobs[LEFT, j] -= kept
    jobs[BEGUN, j] = -1


@inner
def finish(state: State, j: int, now: int) -> None:
    """What waited for its end becomes eligible."""
    jobs = state.jobs
    jobs[END, j] = now
    child = jobs[CHILD, j]
    while child >= 0:
        push(state, max(now, jobs[SUBMIT, child]), child, 0)
        child = jobs[SIBLING, child]


@inner
def level(rules: Rules, attained: int) -> int:
    found = 0
    for bound in rules.levels:
        if attained >= bound:
            found += 1
    return found


@inner
def rank(state: State, rules: Rules, j: int, now: int) -> int:
    """Lower goes first, and may displace higher."""
    jobs = state.jobs
    if rules.order != ATTAINED:
        return int(jobs[RANK, j])
    running = (now - jobs[BEGUN, j]) * jobs[COUNT, j] * jobs[PART, j] if jobs[BEGUN, j] >= 0 else 0
    return level(rules, jobs[HELD, j] + running)
