"""Jobs: which tasks they are made of, who submits them, which of them recur."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gpulake.core.pai import published
from gpulake.synth import clock
from gpulake.synth.draws import choose, generator, quotas, ranks
from gpulake.synth.facts import curve, habits, scaled

LARGE_GANG = 8
LARGE_GANG_GROUP = 40
"""How often, at most, a job with a large gang recurs."""


@dataclass(frozen=True)
class Jobs:
    """One entry per job. Arrays are filled once and then changed only by incidents."""

    template: NDArray[np.int8]
    submitted_at: NDArray[np.int32]
    user: NDArray[np.int32]
    group: NDArray[np.int32]

    def __len__(self) -> int:
        return len(self.template)


def templates(count: int, rng: np.random.Generator) -> NDArray[np.int8]:
    """The kind of every job, such that the tasks add up to their published number."""
    kinds = habits()["templates"]
    tasks = np.array([len(kind["roles"]) for kind in kinds])
    counts = quotas([kind["share"] for kind in kinds], count)
    short = scaled("tasks", count) - int(counts @ tasks)
    single, double = int(np.flatnonzero(tasks == 1)[0]), int(np.flatnonzero(tasks == 2)[0])
    counts[[single, double]] += np.array([-short, short])
    return rng.permutation(np.repeat(np.arange(len(kinds), dtype=np.int8), counts))


def submitted(template: NDArray[np.int8], alike: NDArray[np.int64], in_job: NDArray[np.int64], seed: int) -> Jobs:
    """Jobs with their times, groups and users. Jobs of one group are neighbours in `alike`: they ask for the same."""
    rng = generator(seed, 1)
    group = _groups(alike, in_job, rng)
    return Jobs(
        template=template,
        submitted_at=clock.submissions(len(template), rng).astype(np.int32),
        user=_users(group, rng),
        group=group,
    )


def _groups(alike: NDArray[np.int64], in_job: NDArray[np.int64], rng: np.random.Generator) -> NDArray[np.int32]:
    """Group numbers: most jobs recur, those with gangs more than others."""
    group = np.empty(len(alike), dtype=np.int32)
    share = habits()["groups"]["recurring_job_share"]
    is_gang = in_job > 1
    of_gangs = habits()["groups"]["recurring_gang_share"]
    alone = (share - of_gangs * is_gang.mean()) / max(1 - is_gang.mean(), 1e-9)
    first = 0
    order = np.argsort(alike, kind="stable")
    for chosen, recurring in ((order[is_gang[order]], of_gangs), (order[~is_gang[order]], alone)):
        chunk, within = _chunks(len(chosen), int(recurring * len(chosen)), max(5, len(alike) // 60), rng)
        # One group of a thousand large gangs, all of the same length, would decide how full a whole GPU type is.
        part = np.where(in_job[chosen] >= LARGE_GANG, within // LARGE_GANG_GROUP, 0)
        is_new = (np.diff(chunk, prepend=-1) != 0) | (np.diff(part, prepend=0) != 0)
        group[chosen] = first + np.cumsum(is_new) - 1
        first += int(is_new.sum())
    return group


def _chunks(
    count: int, recurring: int, largest: int, rng: np.random.Generator
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Neighbours that belong together, and their places: of the recurring ones in groups with a heavy tail, of the
    others one to four."""
    many = np.minimum(5 * (1 - rng.random(recurring // 5 + 1)) ** (-1 / 0.95), largest).astype(np.int64)
    many = many[: int(np.searchsorted(np.cumsum(many), recurring)) + 1]
    few = choose([80, 12, 5, 3], rng.random(count)) + 1
    few = few[: np.searchsorted(np.cumsum(few), max(count - many.sum(), 0)) + 1]
    sizes = rng.permutation(np.concatenate([many, few]))
    chunk = np.repeat(np.arange(len(sizes)), sizes)[:count]
    return chunk, np.arange(count) - np.repeat(np.cumsum(sizes) - sizes, sizes)[:count]


def user_quotas(jobs: int) -> NDArray[np.int64]:
    """How many jobs each user submits: the published heavy tail, over fewer users in a smaller trace.

    Users shrink with the square root of the trace, so that a small one still has users to compare.
    """
    full = published()["counts"]
    users = max(40, round(full["users"] * float(np.sqrt(jobs / full["jobs"]))))
    weights = curve("users", "tasks").value((np.arange(users) + 0.5) / users)
    # The largest of the published users submits 23 % of all tasks; of fewer users it would be half.
    weights[-1] = min(weights[-1], 0.3 * weights[:-1].sum())
    return np.maximum(quotas(list(weights), jobs), 1)


def _users(group: NDArray[np.int32], rng: np.random.Generator) -> NDArray[np.int32]:
    """A user for every group, such that every user gets about the jobs of their quota."""
    sizes = np.bincount(group)
    left = user_quotas(len(group)).astype(float)
    owner = np.empty(len(sizes), dtype=np.int32)
    large = np.flatnonzero(sizes >= 5)
    for number in large[np.argsort(-sizes[large], kind="stable")]:
        able = np.where(left >= sizes[number], left, 0.0)
        edges = np.cumsum(able if able.any() else left)
        owner[number] = np.searchsorted(edges, rng.random() * edges[-1], side="right")
        left[owner[number]] = max(left[owner[number]] - sizes[number], 0.0)
    small = np.flatnonzero(sizes < 5)
    edges = np.cumsum(left)
    place = (np.cumsum(sizes[small]) - sizes[small] / 2) / max(sizes[small].sum(), 1)
    owner[small] = np.minimum(np.searchsorted(edges / edges[-1], place, side="right"), len(left) - 1)
    return owner[group]


def workloads(jobs: Jobs, rng: np.random.Generator) -> NDArray[np.int8]:
    """The workload tag of every job, -1 for none; whole groups carry one."""
    names = habits()["groups"]["workloads"]
    sizes = np.bincount(jobs.group)
    # A large group could take, or leave, a point of the share by itself.
    order = rng.permutation(np.flatnonzero(sizes <= max(1, len(jobs) // 200)))
    is_tagged = np.cumsum(sizes[order]) <= habits()["groups"]["workload_share"] * len(jobs)
    tag = np.full(len(sizes), -1, dtype=np.int8)
    tag[order[is_tagged]] = choose(list(names.values()), ranks(rng.random(int(is_tagged.sum()))))
    return tag[jobs.group]
