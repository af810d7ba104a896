"""The kernel gives what the naive twin gives, whatever the policy."""

from __future__ import annotations

from operator import attrgetter

import pytest

from gpulake.replay.policies import POLICIES, Policy
from random_cases import difference

CASES = 10_000
# Policies that others may add: with these a job may start, or be blocked, before the one for which EASY keeps room.
EASY_BY_ESTIMATE = Policy("EASY, the shortest first", passes="easy", key=attrgetter("estimate"))
EASY_BY_SHARE = Policy("EASY, the account that used least first", passes="easy", order="shared")


@pytest.mark.parametrize("name", list(POLICIES))
def test_the_plain_kernel_equals_the_naive_twin(name: str) -> None:
    assert [difference(seed, POLICIES.get(name), is_compiled=False) for seed in range(25)] == [""] * 25


@pytest.mark.parametrize("policy", [EASY_BY_ESTIMATE, EASY_BY_SHARE])
def test_what_easy_keeps_is_right_in_any_order_of_the_queue(policy: Policy) -> None:
    assert [difference(seed, policy, is_compiled=False) for seed in range(200)] == [""] * 200


@pytest.mark.slow
@pytest.mark.parametrize("name", list(POLICIES))
def test_the_compiled_kernel_equals_the_naive_twin_on_ten_thousand_cases(name: str) -> None:
    pytest.importorskip("numba", reason="needs the extra whatif")
    different = [found for seed in range(CASES) if (found := difference(seed, POLICIES.get(name), is_compiled=True))]
    assert different == []
