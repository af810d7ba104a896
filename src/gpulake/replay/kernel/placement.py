"""What is free, and which machines a job gets."""

from __future__ import annotations

from gpulake.replay.kernel.arrays import (
    ALLOWED,
    BASE,
    BEST,
    BLOCK,
    COUNT,
    DOWN,
    FAILED,
    FIRST,
    FREE,
    GPU,
    HIGH_END_PARTS,
    MACHINES,
    MILLI,
    OFFSET,
    PACK,
    PART,
    SHAPE,
    SLOTS,
    TIER,
    TOP,
    VERSION,
    WHOLE,
    WORST,
    Ints,
    Rules,
    State,
    inner,
)  # fmt: skip


@inner
def room(mach: Ints, slot: Ints, m: int, part: int) -> int:
    """Instances of this size that fit on a machine."""
    if mach[DOWN, m] > 0:
        return 0
    if part >= GPU:
        return int(mach[WHOLE, m] // (part // GPU))
    found = mach[WHOLE, m] * (GPU // part)
    left = mach[SLOTS, m]
    s = mach[BASE, m]
    while left > 0:
        if slot[s] >= 0:
            found += slot[s] // part
            left -= 1
        s += 1
    return int(found)


@inner
def take(mach: Ints, slot: Ints, m: int, part: int) -> int:
    """One instance: of a GPU that is shared already the fullest that fits, else of a whole one. Its slot, or -1."""
    mach[MILLI, m] -= part
    if part >= GPU:
        mach[WHOLE, m] -= part // GPU
        return -1
    best, closed, left, s = -1, -1, mach[SLOTS, m], mach[BASE, m]
    while left > 0 or closed < 0:
        if s == mach[BASE, m + 1]:
            break
        if slot[s] < 0:
            closed = s if closed < 0 else closed
        else:
            left -= 1
            if slot[s] >= part and (best < 0 or slot[s] < slot[best]):
                best = s
        s += 1
    if best < 0:
        best = closed
        slot[best] = GPU
        mach[WHOLE, m] -= 1
        mach[SLOTS, m] += 1
    slot[best] -= part
    return int(best)


@inner
def take_at(mach: Ints, slot: Ints, m: int, part: int, s: int) -> None:
    """As `take` did elsewhere."""
    mach[MILLI, m] -= part
    if s < 0:
        mach[WHOLE, m] -= part // GPU
        return
    if slot[s] < 0:
        slot[s] = GPU
        mach[WHOLE, m] -= 1
        mach[SLOTS, m] += 1
    slot[s] -= part


@inner
def give_back(mach: Ints, slot: Ints, m: int, part: int, s: int) -> None:
    mach[MILLI, m] += part
    mach[TOP, m // BLOCK] = max(mach[TOP, m // BLOCK], mach[MILLI, m])
    if s < 0:
        mach[WHOLE, m] += part // GPU
        return
    slot[s] += part
    if slot[s] == GPU:
        slot[s] = -1
        mach[WHOLE, m] += 1
        mach[SLOTS, m] -= 1


@inner
def fragments(mach: Ints, slot: Ints, rules: Rules, m: int) -> int:
    """Free thousandths that typical requests cannot use, weighted by how many such requests there are."""
    total = 0
    for k in range(len(rules.typical_part)):
        part = rules.typical_part[k]
        lost = mach[MILLI, m]
        if room(mach, slot, m, part) > 0:
            lost = 0
            for s in range(mach[BASE, m], mach[BASE, m + 1]):
                if 0 <= slot[s] < part:
                    lost += slot[s]
        total += lost * rules.typical_weight[k]
    return int(total)


@inner
def score(state: State, rules: Rules, mach: Ints, slot: Ints, m: int, part: int, is_high: bool) -> int:
    """Of a machine for an instance: the lowest is taken, the first of equals."""
    if rules.placement == BEST:
        return int(mach[MILLI, m])
    if rules.placement == WORST:
        return int(-mach[MILLI, m])
    if rules.placement == PACK:
        return int(mach[MILLI, m]) + (0 if is_high == (state.mach[TIER, m] > 0) else 1 << 40)
    before = fragments(mach, slot, rules, m)
    s = take(mach, slot, m, part)
    after = fragments(mach, slot, rules, m)
    give_back(mach, slot, m, part, s)
    return after - before


@inner
def is_enough(state: State, mach: Ints, slot: Ints, row: int, part: int, count: int, most: Ints) -> bool:
    """Whether machines have room, `most` instances on each at most if it is given."""
    found, machines = 0, state.numbers[MACHINES]
    for begin in range(0, machines, BLOCK):
        if mach[TOP, begin // BLOCK] < part:
            continue
        for m in range(begin, min(begin + BLOCK, machines)):
            if mach[MILLI, m] >= part and state.allow[row, m]:
                found += room(mach, slot, m, part) if len(most) == 0 else min(room(mach, slot, m, part), most[m])
                if found >= count:
                    return True
    return False


@inner
def place(state: State, rules: Rules, j: int) -> bool:
    """All instances, or none. Between two releases a request that once did not fit does not fit."""
    jobs = state.jobs
    count, version = jobs[COUNT, j], state.numbers[VERSION]
    if jobs[FAILED, jobs[SHAPE, j]] == version:
        return False
    is_placed = count * jobs[PART, j] <= state.numbers[FREE]
    if is_placed and count > 1:
        is_placed = is_enough(state, state.mach, state.slot, jobs[ALLOWED, j], jobs[PART, j], count, state.none)
    if is_placed:
        is_placed = put(state, rules, j, state.none)
    if not is_placed:
        jobs[FAILED, jobs[SHAPE, j]] = version
    return bool(is_placed)


@inner
def put(state: State, rules: Rules, j: int, most: Ints) -> bool:
    """Instance by instance on the best machine; of several the caller knows that there is room for all, in whichever
    order."""
    jobs = state.jobs
    part, m = jobs[PART, j], 0
    for i in range(jobs[OFFSET, j], jobs[OFFSET, j] + jobs[COUNT, j]):
        m = pick(state, rules, j, m if rules.placement == FIRST else 0, most)
        if m < 0:
            return False
        state.inst[0, i] = m
        state.inst[1, i] = take(state.mach, state.slot, m, part)
        if len(most) > 0:
            most[m] -= 1
    state.numbers[FREE] -= jobs[COUNT, j] * part
    return True


@inner
def pick(state: State, rules: Rules, j: int, first: int, most: Ints) -> int:
    """The machine for one instance, from `first` on; -1: none has room."""
    mach, slot, part, row = state.mach, state.slot, state.jobs[PART, j], state.jobs[ALLOWED, j]
    is_high = state.jobs[COUNT, j] * part >= HIGH_END_PARTS
    best, least, machines = -1, 0, state.numbers[MACHINES]
    for begin in range(first // BLOCK * BLOCK, machines, BLOCK):
        if mach[TOP, begin // BLOCK] < part:
            continue
        top = 0
        for m in range(begin, min(begin + BLOCK, machines)):
            free = mach[MILLI, m]
            top = max(top, free)
            if free < part or not state.allow[row, m] or (len(most) > 0 and most[m] == 0):
                continue
            if m < first or room(mach, slot, m, part) == 0:
                continue
            if rules.placement == FIRST or (rules.placement == BEST and free == part):
                return int(m)
            value = score(state, rules, mach, slot, m, part, is_high)
            if best < 0 or value < least:
                best, least = m, value
        mach[TOP, begin // BLOCK] = top
    return int(best)


@inner
def unplace(state: State, j: int) -> None:
    jobs = state.jobs
    for i in range(jobs[OFFSET, j], jobs[OFFSET, j] + jobs[COUNT, j]):
        give_back(state.mach, state.slot, state.inst[0, i], jobs[PART, j], state.inst[1, i])
        if state.mach[DOWN, state.inst[0, i]] == 0:
            state.numbers[FREE] += jobs[PART, j]
