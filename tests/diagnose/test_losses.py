"""Losses of a log: spikes that stay, and the first step that is NaN."""

from __future__ import annotations

from pathlib import Path

from gpulake.core.clock import FrozenClock
from gpulake.diagnose.api import diagnose
from gpulake.diagnose.follow import LogFollower
from gpulake.diagnose.losses import LossWatch
from gpulake.diagnose.rulebook.book import shipped


def losses(first: int, last: int, value: float | str) -> str:
    return "".join(f"step {step}/9000 | loss: {value} | lr 1e-4\n" for step in range(first, last))


def test_a_spike_that_stays_is_named_with_its_steps(tmp_path: Path) -> None:
    log = tmp_path / "a.log"
    log.write_text(losses(0, 500, 2.3) + losses(500, 1500, 8.5))
    found = diagnose(log).diagnosis
    assert (found.verdict, found.reason) == ("failed", "LossSpike")
    assert found.cause == "The loss jumped from about 2.3 to 8.5 at step 500 and stayed there until step 1,499"
    assert [quote.line for quote in found.evidence[:2]] == [501, 1500]
    assert "skip the data of step 500 to step 1,499" in found.remedy


def test_a_spike_that_is_over_and_a_single_bad_batch_are_none() -> None:
    over, single = LossWatch(), LossWatch()
    over.feed((losses(0, 100, 2.3) + losses(100, 150, 8.5) + losses(150, 160, 2.4)).encode())
    single.feed((losses(0, 100, 2.3) + losses(100, 101, 8.5)).encode())
    assert (over.spike, single.spike) == (None, None)


def test_a_loss_that_becomes_nan_names_the_first_bad_step(tmp_path: Path) -> None:
    log = tmp_path / "a.log"
    log.write_text(losses(0, 700, 2.3) + losses(700, 2000, "nan"))
    found = diagnose(log).diagnosis
    assert (found.reason, found.cause) == ("LossNaN", "The loss became NaN or infinite at step 700")
    assert found.evidence[0].line == 701


def test_a_spike_is_reported_while_the_job_runs_and_once(tmp_path: Path, clock: FrozenClock) -> None:
    log = tmp_path / "a.log"
    log.write_text(losses(0, 500, 2.3))
    follower = LogFollower(log, shipped(), clock)
    kinds = [notice.kind for notice in follower.look()]
    for first in (500, 530):
        with log.open("a") as file:
            file.write(losses(first, first + 30, 8.5))
        kinds += [notice.kind for notice in follower.look()]
    follower.close()
    assert kinds == ["spike"]


def test_a_check_that_fails_on_nan_is_not_the_root_cause(tmp_path: Path) -> None:
    log, single = tmp_path / "a.log", tmp_path / "b.log"
    crash = 'Traceback (most recent call last):\n  File "a.py", line 1, in <module>\nIndexError: index out of range\n'
    # In words of a loss that no rule knows.
    nans = "".join(f"step {step} | reward loss | {value}\n" for step, value in enumerate([1.0] * 30 + ["nan"] * 5))
    log.write_text(nans + crash)
    found = diagnose(log).diagnosis
    assert (found.reason, found.recovery.action) == ("LossNaN", "needs_config_change")
    assert found.cause == "The loss became NaN or infinite at step 30, and stayed so"
    assert found.evidence[0].line == 31
    single.write_text(nans.replace("nan", "1.0", 4) + crash)
    assert diagnose(single).diagnosis.reason == "IndexError"


def test_a_loss_that_a_narrow_screen_wraps_and_prefixes_counts(tmp_path: Path) -> None:
    log = tmp_path / "a.log"
    bars = "".join(f"Epoch {epoch}/9  ━━━━━ 16/16 0:00:00 train_loss_step:\n{' ' * 60}nan\n" for epoch in range(2))
    log.write_text("Total params: 66\n" + bars)
    assert diagnose(log).diagnosis.reason == "LossNaN"


def test_losses_in_quotes_count_as_transformers_prints_them() -> None:
    watch = LossWatch()
    numbers = [2.3] * 100 + [8.5] * 50
    watch.feed("".join(f"{{'loss': '{loss}', 'grad_norm': '1.1', 'epoch': '0.1'}}\n" for loss in numbers).encode())
    assert watch.spike is not None
    assert (watch.spike.before, watch.spike.last.value) == (2.3, 8.5)
