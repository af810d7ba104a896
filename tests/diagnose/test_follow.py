from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from gpulake.core.clock import FrozenClock
from gpulake.diagnose.follow import LogFollower, Notice, follow
from gpulake.diagnose.pace import FIRST_STALL_SECONDS, Pace
from gpulake.diagnose.rulebook.book import shipped

AT = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
STEP = "iteration {0:8}/     500 | consumed samples: 16 | lm loss: 1.04E+01 | number of nan iterations: 0 |\n"
NAN = "iteration {0:8}/     500 | consumed samples: 16 | lm loss: nan | number of nan iterations: 1 |\n"
DEATH = """Traceback (most recent call last):
  File "train.py", line 3, in <module>
    step()
ValueError: global batch size (32) is not divisible by 3
"""
DONE = "[2026-01-02 03:04:05,000] [INFO] training finished: 500 iterations in 18.8 s\n"


class Job:
    """A log that somebody writes, and somebody else watches, on a clock that nobody waits for."""

    def __init__(self, path: Path, **settings: float) -> None:
        self.path = path
        self.clock = FrozenClock(AT)
        self.watch = LogFollower(path, shipped(), self.clock, **settings)  # type: ignore[arg-type]

    def write(self, text: str, name: str = "") -> None:
        with (self.path / name if name else self.path).open("a") as file:
            file.write(text)

    def close(self) -> None:
        self.watch.close()

    def looks(self, seconds: float) -> list[Notice]:
        """One look a second."""
        found = []
        for _ in range(int(seconds)):
            found += self.watch.look()
            self.clock.at += timedelta(seconds=1)
            self.clock.elapsed_seconds += 1
        return found

    def steps(self, first: int, last: int, seconds: int = 1) -> list[Notice]:
        found = []
        for number in range(first, last + 1):
            self.write(STEP.format(number))
            found += self.looks(seconds)
        return found


@pytest.fixture
def job(tmp_path: Path) -> Iterator[Job]:
    with closing(Job(tmp_path / "train.log")) as found:
        yield found


def reported(notices: list[Notice]) -> list[tuple[str, str]]:
    return [(notice.kind, notice.diagnosis.reason if notice.diagnosis else notice.text) for notice in notices]


def test_a_log_that_is_not_there_yet_is_waited_for(job: Job) -> None:
    assert job.looks(5) == []
    job.write(DEATH)
    assert reported(job.looks(10)) == [("failure", "ValueError")]


def test_a_failure_is_reported_once_when_nobody_adds_to_it(job: Job) -> None:
    assert job.steps(1, 10) == []
    job.write(DEATH)
    assert job.looks(5) == []
    [notice] = job.looks(1)
    assert (notice.kind, notice.noticed_at) == ("failure", AT + timedelta(seconds=15))
    assert notice.diagnosis is not None
    assert [(quote.line, quote.text) for quote in notice.diagnosis.evidence] == [(14, DEATH.splitlines()[-1])]
    assert job.looks(3600) == []


def test_a_failure_is_reported_though_other_ranks_go_on_talking(job: Job) -> None:
    job.write(DEATH)
    found = []
    for number in range(70):
        job.write(f"rank 1 waits {number}\n")
        found += reported(job.looks(1))
    assert found == [("failure", "ValueError")]


def test_a_last_line_without_an_end_is_heard(job: Job) -> None:
    job.write(DEATH.rstrip("\n"))
    [notice] = job.looks(10)
    assert reported([notice]) == [("failure", "ValueError")]


def test_lines_are_numbered_from_the_beginning_of_the_log(job: Job) -> None:
    job.write(STEP.format(1).rstrip("\n"))
    job.looks(3)
    job.write("\n" + NAN.format(2))
    [notice] = job.looks(1)
    assert notice.quote is not None
    assert (notice.quote.line, notice.quote.text) == (2, NAN.format(2).rstrip())


def test_a_nan_is_reported_at_once_and_is_no_failure_while_the_job_goes_on(job: Job) -> None:
    job.steps(1, 10, seconds=20)
    job.write(NAN.format(11))
    assert reported(job.looks(20)) == [("nan", "The loss became NaN or infinite")]
    assert job.steps(12, 30, seconds=20) == []


def test_a_job_that_stands_still_after_a_nan_failed_of_it(job: Job) -> None:
    job.steps(1, 10)
    job.write(NAN.format(11))
    assert reported(job.looks(70)) == [("nan", "The loss became NaN or infinite"), ("failure", "LossNaN")]


def test_an_error_that_was_handled_is_no_failure(job: Job) -> None:
    job.steps(1, 10, seconds=30)
    job.write("ERROR: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 20 MiB. Retrying\n")
    assert job.looks(30) + job.steps(11, 20, seconds=30) == []


def test_a_stall_is_reported_after_an_interval_that_is_learned_and_once(job: Job) -> None:
    job.steps(1, 20, seconds=30)
    assert job.looks(119) == []
    assert reported(job.looks(600)) == [("stall", "no progress for 2 min; no step took longer than 30 s before")]
    assert reported(job.steps(21, 22)) == [("progress", "the job goes on")]


def test_a_stall_is_reported_after_the_seconds_that_are_asked_for(tmp_path: Path) -> None:
    with closing(Job(tmp_path / "log", stall_seconds=10)) as job:
        job.write("loading\n")
        assert reported(job.looks(30)) == [("stall", "no progress for 10 s")]


def test_the_interval_is_learned_from_a_log_that_is_there_already(job: Job) -> None:
    for number in range(2_000):
        at = AT + timedelta(seconds=10 * number)
        job.write(f"[{at:%Y-%m-%d %H:%M:%S},000] [INFO] {STEP.format(number)}")
    assert reported(job.looks(61)) == [("stall", "no progress for 1 min; no step took longer than 10 s before")]


def test_before_anything_is_learned_it_takes_long_to_call_it_a_stall(job: Job) -> None:
    job.steps(1, 2)
    assert job.looks(FIRST_STALL_SECONDS - 2) == []
    assert reported(job.looks(10)) == [("stall", "no progress for 30 min")]


def test_a_job_that_ended_well_is_finished_and_does_not_stall(job: Job) -> None:
    job.steps(1, 20)
    job.write(DONE)
    assert reported(job.looks(3600)) == [("finished", "NotAFailure")]


def test_a_log_that_is_moved_away_and_begun_anew_is_another_run(job: Job) -> None:
    job.steps(1, 10)
    job.write(DEATH)
    job.path.rename(job.path.with_suffix(".1"))
    job.write(STEP.format(1))
    assert reported(job.looks(3)) == [("failure", "ValueError"), ("restarted", "train.log began anew")]
    job.write(DEATH)
    assert reported(job.looks(10)) == [("failure", "ValueError")]


def test_a_log_that_is_cut_is_another_run(job: Job) -> None:
    job.steps(1, 10)
    job.path.write_text("")
    assert reported(job.looks(2)) == [("restarted", "train.log began anew")]


def test_a_run_that_follows_in_the_same_log_is_reported_and_watched(job: Job) -> None:
    job.steps(1, 10)
    job.write(DEATH)
    assert reported(job.looks(10)) == [("failure", "ValueError")]
    assert reported(job.steps(1, 20)) == [("restarted", "the job works again, in the same log")]
    assert reported(job.looks(600))[:1] == [("stall", "no progress for 1 min; no step took longer than 1 s before")]


def test_a_folder_is_watched_whose_files_come_one_by_one(tmp_path: Path) -> None:
    folder = tmp_path / "ranks"
    folder.mkdir()
    with closing(Job(folder)) as job:
        assert job.looks(2) == []
        job.write(STEP.format(1), "rank0.log")
        assert job.looks(2) == []
        job.write(DEATH, "rank1.log")
        [notice] = job.looks(30)
    assert notice.diagnosis is not None
    assert (notice.kind, notice.diagnosis.evidence[0].file) == ("failure", "rank1.log")


def test_following_ends_with_the_job_where_that_is_asked_for(job: Job) -> None:
    job.write(DONE)
    waits: list[float] = []

    def wait(seconds: float) -> None:
        waits.append(seconds)
        job.clock.elapsed_seconds += seconds

    assert reported(list(follow(job.watch, wait, is_until_end=True))) == [("finished", "NotAFailure")]
    assert waits == [1.0] * 5


def test_another_run_loads_first_and_that_is_no_gap() -> None:
    pace = Pace()
    for at in range(10):
        pace.step(float(at))
    pace.reset(500.0)
    pace.step(501.0)
    assert (pace.longest, pace.silent_seconds(505.0)) == (1.0, 4.0)
