"""Pasts whose scheduler is known: drawn jobs, started by the simulator under a policy."""

from __future__ import annotations

import numpy as np

from gpulake.replay.kernel.arrays import Ints
from gpulake.replay.past import Past
from gpulake.replay.policies import POLICIES
from gpulake.replay.prediction import past_only
from gpulake.replay.simulation import simulate
from gpulake.replay.trace import Machines, Trace, Tuning

BEGIN = 1_700_000_000


def _lengths(work: Ints, seed: int) -> dict[str, Ints]:
    """Other predictions of the run times, as far off as `predicted`."""
    draw = np.random.default_rng(seed + 1)
    names = ("by_user", "by_group", "by_request")
    return {name: np.maximum(60, (work * draw.uniform(0.5, 2, len(work))).astype(np.int64)) for name in names}


def made_past(
    policy: str, jobs: int = 1500, *, machines: int = 6, load: float = 0.95, latency: int = 0, seed: int = 0
) -> Past:
    draw = np.random.default_rng(seed)
    part = draw.choice([250, 500, 1000, 2000, 4000, 8000], jobs, p=[0.1, 0.1, 0.4, 0.15, 0.15, 0.1])
    count = np.where(part == 8000, draw.choice([1, 2], jobs), 1)
    work = np.minimum(draw.lognormal(8, 1.2, jobs).astype(np.int64) + 60, 4 * 86_400)
    span = int((part * count * work).sum() / 1000 / (machines * 8) / load)
    submit = np.sort(draw.integers(0, span, jobs))
    users = [f"user{number}" for number in draw.integers(0, 12, jobs)]
    trace = Trace.of(
        submit,
        count,
        part,
        work,
        estimate=np.maximum(work + 1, (work * draw.uniform(1, 4, jobs)).astype(np.int64)),
        predicted=np.maximum(60, (work * draw.uniform(0.5, 2, jobs)).astype(np.int64)),
        **_lengths(work, seed),
        rank=draw.integers(0, 3, jobs),
        account=draw.integers(0, 5, jobs),
    )
    site = Machines.of([8] * machines, types=["a100"] * machines, tier=[0] * (machines - 1) + [1])
    outcome = simulate(trace, site, POLICIES.get(policy), Tuning(latency_seconds=latency))
    until = BEGIN + int(submit.max())
    moved = Trace(**(vars(trace) | {"submit": trace.submit + BEGIN}))
    _, is_known = past_only(moved.submit, outcome.start, outcome.end, users, users)
    return Past(
        "made", BEGIN, until, moved, site, outcome.start + BEGIN, outcome.end + BEGIN,
        draw.random(jobs) < 0.1, is_known, np.arange(jobs).astype(str), np.array(users), np.full(jobs, "a100"),
        np.full(jobs, "gpu"), (), {}, tuple(f"node{number}" for number in range(machines)),
    )  # fmt: skip
