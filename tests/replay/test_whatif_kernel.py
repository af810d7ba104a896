"""The kernel gives what the naive twin gives, whatever the policy."""

from __future__ import annotations

import pytest

from gpulake.replay.policies import POLICIES
from random_cases import difference

CASES = 10_000


@pytest.mark.parametrize("name", list(POLICIES))
def test_the_plain_kernel_equals_the_naive_twin(name: str) -> None:
    assert [difference(seed, name, is_compiled=False) for seed in range(25)] == [""] * 25


@pytest.mark.slow
@pytest.mark.parametrize("name", list(POLICIES))
def test_the_compiled_kernel_equals_the_naive_twin_on_ten_thousand_cases(name: str) -> None:
    pytest.importorskip("numba", reason="needs the extra whatif")
    different = [found for seed in range(CASES) if (found := difference(seed, name, is_compiled=True))]
    assert different == []
