"""The arrays that the simulator works on: few and wide, since the compiler counts references to each at every call."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

Function = TypeVar("Function", bound=Callable[..., Any])
Ints = NDArray[np.int64]

try:
    from numba.extending import register_jitable

    HAS_COMPILER = True
except ImportError:
    HAS_COMPILER = False


def inner(function: Function) -> Function:
    """Plain when it is called from Python, compiled when it is called from compiled code."""
    return register_jitable(function) if HAS_COMPILER else function


GPU = 1000
FOREVER = 1 << 62
SKIP, EASY, CONSERVATIVE = range(3)
FIRST, BEST, WORST, PACK, FRAGMENTS = range(5)
STATIC, ATTAINED, SHARED = range(3)
NEVER, BY_PRIORITY, BY_ATTAINED = range(3)
HIGH_END_PARTS = 8 * GPU  # from this much on, a job may take machines of the high tier first

# Rows of State.jobs. Given: one entry a job, by time of submission.
SUBMIT = 0
COUNT = 1  # instances, which start and end together
PART = 2  # thousandths of a GPU of each; from 1000 on a multiple of it
ALLOWED = 3  # row of State.allow
ESTIMATE = 4  # seconds that the scheduler expects
LIMIT = 5  # seconds after which an attempt is ended; 0: none
RANK = 6  # priority: lower goes first, and may displace higher
ACCOUNT = 7
KEY = 8  # place in the queue: lower goes first, then by number
AFTER = 9  # the job whose end makes it eligible; -1: none
SHAPE = 10  # the same for the same count, part and allowed
OFFSET = 11  # of its first instance
CHILD = 12  # first job that waits for its end
SIBLING = 13  # next job that waits for the same end
# While it runs, and what comes out.
LEFT = 14  # seconds of work
EXPECTED = 15  # end
BEGUN = 16  # of the attempt; -1: it does not run
POSITION = 17  # among the running ones
START = 18  # of the first attempt; -1: never
END = 19  # -1: not within the time
TRIES = 20
HELD = 21  # thousandths of GPU-seconds
LOST = 22  # of these: by attempts that ended early, and not kept by a checkpoint
# Lists, and entries by shape or account, of which there are no more than jobs.
QUEUE = 23
RUN_LIST = 24
EVICT_LIST = 25
FAILED = 26  # by shape: the version of the free GPUs at which it did not fit
# By shape: the moment at which displacing did not help a job of KEPT_RANK; with EASY the number of changes at which it
# would have delayed the head of the queue.
KEPT_AT = 27
KEPT_RANK = 28
USAGE = 29  # by account
HOLDING = 30  # by account: thousandths of GPUs held now
JOB_ROWS = 31

# Rows of State.mach. A GPU that is shared has a slot with its free thousandths; -1: no GPU has this slot.
# TOP has an entry a block of machines: no machine of the block has more free thousandths.
TIER, WHOLE, BASE, SLOTS, MILLI, DOWN, TOP = range(7)
BLOCK = 16
# Places in State.numbers.
HEAD, TAIL, HEAP, RUNNING, VERSION, FREE, EVICTED, LOGGED, STAMP, MACHINES = range(10)
# Of EASY: for which job room is kept (-1: none is), from when on, and room for how many of its instances.
RESERVED, RESERVED_AT, RESERVED_ROOM = range(10, 13)
CHANGES = 13  # starts, ends and machine events so far, and reservations
NUMBERS = 14


class Rules(NamedTuple):
    mode: int
    depth: int  # blocked jobs after which the rest of the queue is not looked at
    placement: int
    order: int
    preempts: int
    latency: int  # seconds from the decision to the start
    checkpoint: int  # seconds between checkpoints; 0: none
    restart: int  # seconds that a restarted job needs to get going
    half_life: int  # seconds after which the usage of an account counts half
    levels: tuple[int, ...]  # attained thousandths of GPU-seconds at which a job goes down a level
    typical_part: tuple[int, ...]
    typical_weight: tuple[int, ...]


class State(NamedTuple):
    jobs: Ints
    mach: Ints
    slot: Ints
    inst: Ints  # of each instance the machine and the slot
    heap: Ints  # time, job, attempt
    numbers: Ints
    allow: NDArray[np.bool_]  # by row that jobs name, and machine
    events: Ints  # time, machine, and whether it goes down (1) or comes back (0)
    log: Ints  # job, machine, slot, from, until, thousandths
    none: Ints  # no most instances
    later_mach: Ints  # what is free when the reservation begins
    later_slot: Ints
