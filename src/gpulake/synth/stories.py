"""Stories: the outcome of a job, and so of each of its instances.

One failed worker interrupts its gang, some of which is left behind as Running or still Waiting in the records.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gpulake.synth.draws import choose, even, generator
from gpulake.synth.facts import FAILED, INTERRUPTED, RUNNING, TERMINATED, WAITING, habits


@dataclass(frozen=True)
class Story:
    """The status of the job, and the shares of its instances that fail (at least one, if any), run and wait."""

    job_status: int
    others: int
    failed: float = 0.0
    running: float = 0.0
    waiting: float = 0.0
    retried: float = 0.0  # share of the instances that may have failed attempts first


STORIES = {
    "well": Story(TERMINATED, TERMINATED),
    "failed": Story(FAILED, FAILED, retried=0.10),
    "failed_gang": Story(FAILED, INTERRUPTED, failed=0.06, retried=0.10),
    "failed_gang_some_running": Story(FAILED, INTERRUPTED, failed=0.04, running=0.13, retried=0.10),
    "failed_gang_some_waiting": Story(FAILED, INTERRUPTED, failed=0.03, waiting=0.46),
    "retried_still_running": Story(RUNNING, RUNNING, retried=0.40),
    "retried": Story(TERMINATED, TERMINATED, retried=0.14),
    "running": Story(RUNNING, RUNNING),
    "running_some_waiting": Story(RUNNING, RUNNING, waiting=0.49),
    "waiting": Story(WAITING, WAITING),
}
NAMES = tuple(STORIES)
ALWAYS_RETRIED = tuple(NAMES.index(name) for name in ("retried", "retried_still_running"))


def trait(name: str) -> NDArray[np.float64]:
    """One trait of every story, to be looked up by story code."""
    return np.array([float(getattr(story, name)) for story in STORIES.values()])


def assign(instances: NDArray[np.int64], seed: int) -> NDArray[np.int8]:
    """The story of every job, given how many instances it has; dealt evenly along the sizes."""
    rng = generator(seed, 6)
    table = habits()["stories"]
    size_class = np.searchsorted(np.array(table["job_size"]), instances)
    story = np.empty(len(instances), dtype=np.int8)
    for number in range(len(table["job_size"]) + 1):
        chosen = np.flatnonzero(size_class == number)
        rest = [float(table[name][number]) for name in NAMES[1:]]
        order = chosen[np.argsort(instances[chosen] + rng.random(len(chosen)), kind="stable")]
        story[order] = choose([1.0 - sum(rest), *rest], even(len(order), rng))
    return story


def last_statuses(
    story: NDArray[np.int8], place: NDArray[np.float64], instances: NDArray[np.int32]
) -> NDArray[np.int8]:
    """The status of each instance's last attempt, from its story, its place in the gang (0..1) and the gang's size."""
    failed = trait("failed")[story]
    failed_to = np.where(failed > 0, np.maximum(failed, 1 / instances), 0.0)
    running_to = failed_to + trait("running")[story]
    waiting_to = running_to + trait("waiting")[story]
    status = trait("others").astype(np.int8)[story]
    status[place < waiting_to] = WAITING
    status[place < running_to] = RUNNING
    status[place < failed_to] = FAILED
    return status
