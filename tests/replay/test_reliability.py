"""Theory against dice, and against closed forms that others wrote."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats  # type: ignore[import-untyped]
from scipy.special import lambertw  # type: ignore[import-untyped]

from gpulake.replay.reliability import (
    best_interval,
    daly_interval,
    goodput_ratio,
    poisson_interval,
    segment_seconds,
    spare_machines,
    young_interval,
)


@pytest.mark.parametrize("events", [0, 1, 5, 30, 1000, 1001, 50_000])
def test_the_interval_of_a_count_is_that_of_garwood(events: int) -> None:
    low = stats.chi2.ppf(0.025, 2 * events) / 2 if events else 0.0
    high = stats.chi2.ppf(0.975, 2 * events + 2) / 2
    assert poisson_interval(events) == pytest.approx((low, high), rel=1e-5)


def played(mttf: float, cost: float, restart: float, interval: float, segments: int, seed: int) -> float:
    """The seconds that each segment took, by dice: a failure during work, checkpoint or restart begins a restart."""
    dice = np.random.default_rng(seed)
    passed = 0.0
    fails_in = dice.exponential(mttf)

    def attempt(length: float) -> bool:
        nonlocal passed, fails_in
        step = min(length, fails_in)
        passed, fails_in = passed + step, fails_in - step
        if fails_in > 0:
            return True
        fails_in = dice.exponential(mttf)
        return False

    for _ in range(segments):
        while not attempt(interval + cost):
            while not attempt(restart):
                pass
    return passed / segments


@pytest.mark.slow
@pytest.mark.parametrize(
    ("mttf", "cost", "restart", "interval"),
    [(3600.0, 60.0, 300.0, 600.0), (1000.0, 100.0, 50.0, 400.0), (500.0, 200.0, 400.0, 300.0)],
)
def test_the_expected_time_of_a_segment_is_what_dice_say(
    mttf: float, cost: float, restart: float, interval: float
) -> None:
    by_dice = played(mttf, cost, restart, interval, 60_000, seed=7)
    assert segment_seconds(mttf, restart, interval + cost) == pytest.approx(by_dice, rel=0.03)
    assert goodput_ratio(mttf, cost, restart, interval) == pytest.approx(interval / by_dice, rel=0.03)


@given(st.floats(60, 1e7), st.floats(0.1, 3600), st.floats(0, 7200))
def test_no_interval_beats_the_best_one(mttf: float, cost: float, restart: float) -> None:
    best = best_interval(mttf, cost)
    # Known in closed form, through Lambert's W.
    assert best == pytest.approx(mttf * (1 + lambertw(-math.exp(-1 - cost / mttf)).real), rel=1e-4, abs=1e-3)
    ratio = goodput_ratio(mttf, cost, restart, best)
    for other in (young_interval(mttf, cost), daly_interval(mttf, cost), best * 0.9, best * 1.1):
        if other > 0:
            assert goodput_ratio(mttf, cost, restart, other) <= ratio * (1 + 1e-9)


def test_the_published_intervals_of_a_checkpoint_of_five_minutes_and_a_failure_a_day() -> None:
    mttf, cost = 86_400.0, 300.0
    assert young_interval(mttf, cost) == pytest.approx(7200.0)
    assert daly_interval(mttf, cost) == pytest.approx(7200 * (1 + 1 / 72 + 1 / 5184) - 300)
    assert daly_interval(mttf, cost) == pytest.approx(best_interval(mttf, cost), rel=1e-4)
    assert daly_interval(100.0, 200.0) == 100.0


@pytest.mark.parametrize(("needed", "down_ratio"), [(8, 0.0), (8, 0.02), (64, 0.01), (64, 0.1), (1000, 0.005)])
@pytest.mark.parametrize("probability", [0.95, 0.99])
def test_the_spares_are_the_fewest_that_keep_as_many_up(needed: int, down_ratio: float, probability: float) -> None:
    spares = spare_machines(needed, down_ratio, probability)
    assert stats.binom.sf(needed - 1, needed + spares, 1 - down_ratio) >= probability - 1e-12
    assert spares == 0 or stats.binom.sf(needed - 1, needed + spares - 1, 1 - down_ratio) < probability


def test_a_job_that_cannot_get_through_takes_for_ever() -> None:
    assert segment_seconds(1.0, 0.0, 1e6) == math.inf
    assert goodput_ratio(1.0, 60.0, 0.0, 1e6) == 0.0
