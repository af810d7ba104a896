"""What a finding, an incident or an action is worth: the past without it, against hand-made pasts."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from gpulake.replay.backtest import Backtest, Fit, Score
from gpulake.replay.past import Past
from gpulake.replay.pricing import Price, Priced, prices, refused
from gpulake.replay.trace import Machines, Trace
from gpulake.replay.window import Window, cut

HOUR = 3600
FIT = Fit("fifo", 1.0, 0, 0, 0.0, ())
SCORE = Score("all", "", 2, (0.0, 0.0, 0.0), (0.0, 360.0, 0.0), {})
TESTED = Backtest("site", FIT, (SCORE,), 0.0, (), 0.0, 0.0, 0.0, 0.0, ())


def _window(**given: object) -> Window:
    """One GPU: ann holds it idle for five hours, bob waits for it behind her and runs an hour."""
    submit, work = np.array([1, 1]), np.array([5 * HOUR, HOUR])
    trace = Trace.of(submit, [1, 1], [1000, 1000], work, estimate=[8 * HOUR, HOUR])
    start = np.array([1, 5 * HOUR + 1])
    text = np.array(["", ""])
    past = Past(
        "site", 0, 12 * HOUR, trace, Machines.of([1]), start, start + work, np.array([True, False]),
        np.array([True, True]), np.array(["7", "8"]), np.array(["ann", "bob"]), text, text, (), {}, ("node1",),
    )  # fmt: skip
    return cut(replace(past, **given), 0, 12 * HOUR)  # type: ignore[arg-type]


def _priced(kind: str, subject: str = "", node: str = "", job: str = "", of: str = "finding") -> Priced:
    return Priced(of, "id", kind, subject, node, job, 1.0, 12.0 * HOUR)


def _price(window: Window, one: Priced) -> Price:
    return prices(window, TESTED, [one])[0]


def test_releasing_idle_gpus_saves_all_but_the_first_hour_and_the_waits_behind_them() -> None:
    found = _price(_window(), _priced("idle_gpus", "ann"))
    assert found.words == (
        "releasing the idle GPUs of ann after 1 h would have saved 4.0 GPU-hours and changed the p90 wait from"
        " 4 h 30 min to 54 min (± 6 min by back-test)"
    )


def test_a_user_without_idle_runs_has_no_price() -> None:
    found = _price(_window(), _priced("idle_gpus", "bob"))
    assert found.words == "not priced: no run was idle all its life for more than an hour: the idle GPUs of bob"
    assert found.saved_gpu_hours is None


def test_a_failure_is_worth_what_its_run_held_after_the_first_minute() -> None:
    found = _price(_window(), _priced("failure", "log", job="8", of="incident"))
    assert found.saved_gpu_hours == pytest.approx(59 / 60)


def test_an_outage_costs_the_work_that_it_destroyed() -> None:
    machines = Machines.of([1]).with_outages([0], [2 * HOUR + 1], [3 * HOUR])
    found = _price(_window(machines=machines), _priced("node_down", "node1", node="node1"))
    assert found.change == "avoiding the outage of node1"
    assert found.saved_gpu_hours == pytest.approx(2.0, abs=0.01)


def test_a_faulty_node_without_an_outage_says_why_it_has_no_price() -> None:
    found = _price(_window(), _priced("hot_node", "node1", node="node1"))
    assert found.reason == "node1 had no outage then; that work was slower is not simulated"


def test_a_cancellation_did_save_the_time_to_the_limit() -> None:
    found = _price(_window(), _priced("cancelled", "7", job="7", of="cancellation"))
    assert found.words == (
        "cancelling job 7 did save 3.0 GPU-hours and changed the p90 wait from 7 h 12 min to 4 h 30 min"
        " (± 6 min by back-test)"
    )


def test_a_restart_from_a_checkpoint_did_save_the_work_before_it() -> None:
    """Job 8 is the second run of job 7, after its restart."""
    window = _window(job_id=np.array(["7", "7"]))
    restarted = replace(_priced("restarted", "7", job="7", of="recovery"), begin=5.0 * HOUR)
    found = _price(window, restarted)
    assert found.change == "restarting job 7 from its checkpoint"
    assert found.saved_gpu_hours == pytest.approx(5.0)


def test_what_no_simulation_knows_has_no_price() -> None:
    assert _price(_window(), _priced("stuck_queue")).words == (
        "not priced: a simulation of waits does not know stuck_queue"
    )


def test_where_the_backtest_refuses_nothing_has_a_price() -> None:
    tested = replace(TESTED, refusals=("a guess is closer",))
    assert [one.words for one in refused([_priced("idle_gpus", "ann")], tested)] == [
        "not priced: cannot say for site: a guess is closer"
    ]
