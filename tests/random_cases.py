"""Small clusters and few jobs, drawn at random: full of ties, gangs, shared GPUs, failures and dependencies.

One in ten has as many machines as fill several blocks of the simulator.
"""

from __future__ import annotations

import numpy as np

from gpulake.replay.policies import Policy
from gpulake.replay.simulation import placeable, simulate
from gpulake.replay.trace import Machines, Trace, Tuning
from naive_twin import Twin


def random_case(seed: int) -> tuple[Trace, Machines, Tuning]:
    draw = np.random.default_rng(seed)
    is_wide = draw.random() < 0.1
    size, machines = int(draw.integers(1, 15)), int(draw.integers(1, 5))
    if is_wide:
        size, machines = int(draw.integers(10, 30)), int(draw.integers(17, 40))
    gpus = draw.integers(1, 5, machines)
    rows = int(draw.integers(1, 3))
    allow = draw.random((rows, machines)) < 0.8
    span = int(draw.choice([1, 20, 100]))
    work = draw.integers(1, 40, size)
    parts = np.array([250, 300, 500, 1000, 1000, 2000, 3000])
    trace = Trace.of(
        np.sort(draw.integers(0, span, size)),
        draw.integers(1, 20 if is_wide else 4, size),
        draw.choice(parts, size),
        work,
        estimate=np.maximum(1, work + draw.integers(-5, 30, size)),
        predicted=draw.integers(1, 60, size),
        by_user=draw.integers(1, 60, size),
        by_group=draw.integers(1, 60, size),
        by_request=draw.integers(1, 60, size),
        allowed=draw.integers(0, rows, size),
        limit=draw.choice([0, 0, 25], size),
        rank=draw.integers(0, 3, size),
        account=draw.integers(0, 3, size),
        after=np.where(
            draw.random(size) < 0.15, np.array([draw.integers(-1, max(1, j)) if j else -1 for j in range(size)]), -1
        ),
    )
    outages = int(draw.integers(0, 4))
    begin = draw.integers(0, 80, outages)
    site = Machines.of(gpus, allow=allow, tier=draw.integers(0, 2, machines)).with_outages(
        draw.integers(0, machines, outages), begin, begin + draw.integers(1, 30, outages)
    )
    tuning = Tuning(
        latency_seconds=int(draw.choice([0, 0, 3])),
        depth=int(draw.choice([0, 0, 1, 3])),
        checkpoint_seconds=int(draw.choice([0, 5])),
        restart_seconds=int(draw.choice([0, 2])),
        half_life_seconds=int(draw.choice([10, 1000])),
        level_gpu_hours=(0.005, 0.02),
    )
    return trace, site, tuning


def difference(seed: int, policy: Policy, *, is_compiled: bool) -> str:
    """Of what the kernel and the naive twin give for a case under a policy; empty: there is none."""
    trace, machines, tuning = random_case(seed)
    trace = trace.kept(placeable(trace, machines))
    found = simulate(trace, machines, policy, tuning, is_compiled=is_compiled, is_logged=True)
    twin = Twin(trace, machines, policy, tuning)
    twin.run()
    expected = [twin.start, twin.end, twin.tries, twin.held, twin.lost, sorted(twin.log)]
    got = [
        found.start.tolist(),
        found.end.tolist(),
        found.tries.tolist(),
        np.rint(found.held_gpu_seconds * 1000).astype(int).tolist(),
        np.rint(found.lost_gpu_seconds * 1000).astype(int).tolist(),
        sorted(map(tuple, found.log.tolist())),
    ]
    return "" if got == expected else f"seed {seed}: {got}\n{expected}"
