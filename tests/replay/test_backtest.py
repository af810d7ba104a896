"""The back-test names the policy that made a past, and refuses where it cannot say."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from gpulake.core.errors import InputError
from gpulake.replay.backtest import backtest, distance, shared
from gpulake.replay.identity import conflicts
from gpulake.replay.past import size_of
from gpulake.replay.policies import POLICIES
from gpulake.replay.prediction import past_only, within_ratio
from gpulake.replay.trace import Machines
from made_pasts import BEGIN, made_past

# These displace jobs: their runs are recorded as one, from the first start to the last end.
DISPLACING = {"las", "priority"}


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(set(POLICIES) - DISPLACING))
def test_the_policy_is_named_and_unseen_waits_are_within_two_percent(name: str) -> None:
    tested = backtest(made_past(name))
    assert name in (tested.fit.policy, *tested.fit.ties)
    assert tested.is_believed
    for recorded, simulated in list(zip(tested.whole.recorded, tested.whole.simulated, strict=True))[:2]:
        assert simulated == pytest.approx(recorded, rel=0.02)


def test_a_dispatch_latency_is_found() -> None:
    assert (
        backtest(made_past("fifo_skip", 200, machines=2, latency=30), policies=["fifo_skip"]).fit.latency_seconds == 30
    )


def test_waits_that_no_queue_explains_are_refused() -> None:
    past = made_past("fifo_skip", 200, machines=2, load=0.3)
    late = np.random.default_rng(1).integers(0, 50_000, len(past))
    tested = backtest(replace(past, start=past.start + late, end=past.end + late), policies=["fifo_skip"])
    assert not tested.is_believed
    assert tested.refusals[0].startswith("'last week by size' is closer to the recorded waits than the simulation")


def test_records_that_hold_more_gpus_than_there_are_are_named() -> None:
    past = made_past("fifo", 200, machines=4)
    assert conflicts(past) == (0.0, ())
    less = replace(past, machines=Machines.of([8] * 2, types=["a100"] * 2))
    ratio, found = conflicts(less)
    assert ratio > 0.02
    assert [(one.where, one.gpus, one.most_held > 16) for one in found] == [("a100", 16, True)]


def test_too_few_runs_are_an_error() -> None:
    with pytest.raises(InputError, match="made has too few runs for a back-test: 25"):
        backtest(made_past("fifo", 25, machines=2))


def test_a_share_of_the_gpus_is_taken_evenly() -> None:
    assert shared(Machines.of([8, 8, 8, 8]), 0.75).gpus.tolist() == [6, 6, 6, 6]


def test_the_distance_of_distributions_is_the_mean_distance_of_sorted_values() -> None:
    assert distance(np.array([3, 1]), np.array([1, 5])) == 1.0


def test_predictions_use_only_what_had_ended() -> None:
    submit = np.array([0, 5, 20, 30])
    start, end = np.array([0, 5, 20, 30]), np.array([10, 40, 25, 31])
    predicted, is_known = past_only(submit, start, end, ["g", "g", "g", "h"], ["u", "u", "u", "u"])
    assert predicted.tolist() == [1, 1, 10, 10]
    assert is_known.tolist() == [False, False, True, True]
    assert within_ratio(np.array([100, 126]), np.array([100, 100]), np.array([True, True])) == 0.5


def test_sizes_have_names() -> None:
    assert [size_of(gpus) for gpus in (0.5, 1, 2, 8, 9, 64, 65)] == [
        "below 1", "1", "2 to 8", "2 to 8", "9 to 64", "9 to 64", "65 and more",
    ]  # fmt: skip


def test_a_past_begins_when_it_says() -> None:
    assert made_past("fifo", 30, machines=2).begin == BEGIN
