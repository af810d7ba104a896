"""What a scenario changes, and what comes of it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from gpulake.core.config import GpuType
from gpulake.core.errors import InputError, UsageError
from gpulake.replay.backtest import Fit
from gpulake.replay.scenario import Scenario, changed, read_scenarios, simulate_all
from gpulake.replay.window import Window, cut
from made_pasts import made_past

FIT = Fit("easy", 1.0, 0, 0, 0.0, ())
PRICES = {"a100": GpuType(price_per_hour=2.0, busy_watts=400, idle_watts=50)}


@pytest.fixture(scope="module")
def window() -> Window:
    past = made_past("easy", 200, machines=3)
    return cut(past, past.begin, past.until)


def test_the_past_as_it_is_gives_the_recorded_waits(window: Window) -> None:
    before = simulate_all(window, FIT, [Scenario()], PRICES)[0]
    waits = window.recorded()[~window.is_warm]
    assert before.wait_seconds == tuple(float(np.quantile(waits, level)) for level in (0.5, 0.9, 0.99))


def test_more_gpus_never_hold_more_than_there_are_and_shorten_the_wait(window: Window) -> None:
    before, after = simulate_all(window, FIT, [Scenario(), Scenario(gpus="+16:A100")], PRICES)
    assert after.wait_seconds[1] < before.wait_seconds[1]
    assert 0 < after.utilisation_ratio <= 1
    assert changed(window, Scenario(gpus="+20")).machines.gpus.tolist() == [8, 8, 8, 8, 8, 4]
    assert changed(window, Scenario(gpus="-10")).machines.gpus.tolist() == [8, 6, 0]


def test_cancelled_idle_runs_give_their_gpus_back(window: Window) -> None:
    before, after = simulate_all(window, FIT, [Scenario(), Scenario(cancel_idle_seconds=60)], PRICES)
    assert after.held_gpu_hours < before.held_gpu_hours
    assert after.cost is not None
    assert after.cost == pytest.approx(2 * after.held_gpu_hours, rel=0.01)


def test_a_machine_is_out_for_good_after_so_many_failures(window: Window) -> None:
    failing = window.machines.with_outages([0, 0, 0, 1], [10, 100, 1000, 50], [20, 110, 1010, 60])
    out = changed(Window(**(vars(window) | {"machines": failing})), Scenario(cordon_after=2)).machines
    until = window.until - window.begin + 2
    assert list(zip(out.out_machine.tolist(), out.out_from.tolist(), out.out_until.tolist(), strict=True)) == [
        (0, 10, 20), (1, 50, 60), (0, 100, until),
    ]  # fmt: skip


def test_checkpoints_save_what_failures_cost(window: Window) -> None:
    failing = window.machines.with_outages([0, 1, 2], [20_000, 50_000, 90_000], [20_100, 50_100, 90_100])
    used = Window(**(vars(window) | {"machines": failing}))
    none, often = simulate_all(used, FIT, [Scenario(), Scenario(checkpoint_seconds=60)], PRICES)
    assert 0 < often.lost_gpu_hours < none.lost_gpu_hours


def test_scenarios_are_read_from_toml(tmp_path: Path) -> None:
    path = tmp_path / "plans.toml"
    path.write_text('[[scenario]]\nname = "more"\ngpus = "+8"\n[[scenario]]\ncheckpoint = "30m"\ncordon_after = 2\n')
    assert read_scenarios(path) == [
        Scenario("more", gpus="+8"),
        Scenario("scenario 2", checkpoint_seconds=1800, cordon_after=2),
    ]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('[[scenario]]\ngpu = "+8"', "a scenario has no 'gpu'"),
        ('[[scenario]]\ngpus = "many"', "'many' is no change of GPUs"),
        ('[[scenario]]\npolicy = "easi"', "no policy named 'easi'"),
        ('[[scenario]]\ncheckpoint = "soon"', "'soon' is no span of time"),
        ('[[scenario]]\ncancel_idle = "0s"', "'0s' is no span of time"),
        ("[[scenario]]\ngpus = 8", "gpus is no text: 8"),
        ("[[scenario]]\npolicy = 5", "policy is no text: 5"),
        ("[[scenario]]\nname = 3", "name is no text: 3"),
        ("[[scenario]]\ncordon_after = -1", "cordon_after is no number of failures: -1"),
        ("[[scenario]]\ncordon_after = true", "cordon_after is no number of failures: True"),
        ('[[scenario]]\nname = "a"\n[[scenario]]\nname = "a"', "two scenarios are named 'a'"),
    ],
)
def test_a_wrong_scenario_is_an_error_that_says_what(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "plans.toml"
    path.write_text(text)
    with pytest.raises(UsageError, match=message):
        read_scenarios(path)


@pytest.mark.parametrize(("text", "message"), [("", "has no"), ("scenario = [3]", "scenario 1 is no table: 3")])
def test_a_file_without_scenarios_is_an_error(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "plans.toml"
    path.write_text(text)
    with pytest.raises(InputError, match=message):
        read_scenarios(path)


def test_a_time_in_which_nothing_became_eligible_is_an_error(window: Window) -> None:
    later = Window(**(vars(window) | {"is_warm": np.ones(len(window.trace), np.bool_)}))
    with pytest.raises(InputError, match="no run became eligible"):
        simulate_all(later, FIT, [Scenario()], PRICES)


def test_an_unknown_type_of_gpu_is_an_error(window: Window) -> None:
    with pytest.raises(UsageError, match="no machine has GPUs of type 'H900'"):
        changed(window, Scenario(gpus="+8:H900"))
