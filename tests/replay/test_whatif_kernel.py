"""The kernel gives what the naive twin gives, whatever the policy."""

from __future__ import annotations

import numpy as np
import pytest

from gpulake.replay.policies import POLICIES
from gpulake.replay.simulation import placeable, simulate
from naive_twin import Twin
from random_cases import random_case

CASES = 10_000


def _differs(seed: int, name: str, *, is_compiled: bool) -> str:
    trace, machines, tuning = random_case(seed)
    trace = trace.kept(placeable(trace, machines))
    policy = POLICIES.get(name)
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


@pytest.mark.parametrize("name", list(POLICIES))
def test_the_plain_kernel_equals_the_naive_twin(name: str) -> None:
    assert [_differs(seed, name, is_compiled=False) for seed in range(25)] == [""] * 25


@pytest.mark.slow
@pytest.mark.parametrize("name", list(POLICIES))
def test_the_compiled_kernel_equals_the_naive_twin_on_ten_thousand_cases(name: str) -> None:
    pytest.importorskip("numba", reason="needs the extra whatif")
    different = [found for seed in range(CASES) if (found := _differs(seed, name, is_compiled=True))]
    assert different == []
