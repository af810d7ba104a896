"""From a lake to the ladder: who holds GPUs empty, what is done about it, and what the journal knows."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from pathlib import Path

import pytest
from click.testing import CliRunner

from conftest import rows_of
from gpulake.act.holders import Holder
from gpulake.act.nudges import Nudge
from gpulake.cli import root
from gpulake.core.clock import FrozenClock
from gpulake.core.config import Config, GpuType
from gpulake.core.errors import GpulakeError, LakeBusyError, LakeError, UsageError
from gpulake.core.nudge_settings import Nudges
from gpulake.flow import Flow
from gpulake.lake import Lake
from hand_made import Attempt, build_trace, hour, write_trace

ATTEMPTS = [
    Attempt("empty", "ann", 1, 13, gpus=2, used=0, group="g", workload="nlp"),
    Attempt("short", "ann", 9.5, 13, used=0),
    Attempt("busy", "ann", 1, 13, used=0.9),
    Attempt("unseen", "ann", 1, 13),
    Attempt("over", "ann", 1, 9, used=0),
    # A gang of which one is at work.
    Attempt("gang", "bob", 2, 13, used=0, instance="a"),
    Attempt("gang", "bob", 2, 13, used=1, instance="b"),
    Attempt("running", "bob", 8, None, used=0, machine="t", status="running"),
    Attempt("last", "cy", 11, 13, used=1),
]
SINCE = hour(1)


@pytest.fixture
def lake(config: Config) -> Config:
    return replace(build_trace(config, ATTEMPTS), gpu_types={"V100": GpuType(price_per_hour=3.0)})


def nudges(config: Config, now: datetime, is_executed: bool = True, at: datetime | None = None) -> tuple[Nudge, ...]:
    return Flow(config, clock=FrozenClock(now)).nudges(at=at, is_executed=is_executed)


def steps(due: Sequence[Nudge]) -> dict[str, str | None]:
    return {nudge.holder.job_id: nudge.step for nudge in due}


def test_who_holds_gpus_empty_at_a_time_and_for_long_enough(lake: Config) -> None:
    due = nudges(lake, hour(10), is_executed=False, at=hour(10))
    v100, t4, zone = ("V100",), ("T4",), "Asia/Shanghai"
    assert [nudge.holder for nudge in due] == [
        Holder("pai", "empty", "ann", None, "nlp", "g", v100, 2.0, SINCE, hour(10), 18.0, 54.0, zone, False),
        Holder("pai", "gang", "bob", None, None, "bob", v100, 1.0, hour(2), hour(10), 8.0, 24.0, zone, True),
        Holder("pai", "running", "bob", None, None, "bob", t4, 1.0, hour(8), hour(10), 2.0, None, zone, False),
    ]
    assert steps(nudges(lake, hour(10), is_executed=False, at=hour(11))) == dict.fromkeys(
        ("empty", "gang", "running", "short"), "warn"
    )


def test_nobody_is_nudged_without_data(lake: Config) -> None:
    at_the_end = nudges(lake, hour(13), is_executed=False)
    assert nudges(lake, hour(13), is_executed=False, at=hour(99)) == at_the_end
    # What ends there is over; what is running there is not.
    assert {nudge.holder.job_id: nudge.holder.seen_at for nudge in at_the_end} == {"running": hour(13)}


def test_a_dry_run_keeps_nothing_in_mind(lake: Config) -> None:
    for _ in range(2):
        assert set(steps(nudges(lake, hour(10), is_executed=False, at=hour(10))).values()) == {"warn"}
    assert not (lake.lake / "nudges.jsonl").exists()
    assert rows_of(Lake(lake), "SELECT * FROM nudges") == []


@pytest.mark.slow
def test_the_ladder_is_climbed_and_the_job_is_cancelled_once(lake: Config, tmp_path: Path) -> None:
    out = tmp_path / "cancelled"
    command = (
        sys.executable,
        "-c",
        "import sys; open(sys.argv[1], 'a').write(sys.argv[2] + '\\n')",
        str(out),
        "{job_id}",
    )
    config = replace(lake, nudges=Nudges(cancel_command=command, exclude_users=("cy",)))
    climbed = [steps(nudges(config, hour(at), at=hour(at))) for at in (10, 10.75, 11, 11.5, 12)]
    assert [run["empty"] for run in climbed] == ["warn", "final", "cancel", None, None]
    assert [run["gang"] for run in climbed] == ["warn", "final", None, None, None]
    assert [run.get("short") for run in climbed] == [None, "warn", None, "final", "cancel"]
    assert out.read_text().split() == ["empty", "running", "short"]
    columns = "job_id, step, status, exit_code, gpus, gpu_hours, seen_at, nudged_at"
    kept = rows_of(Lake(config), f"SELECT {columns} FROM nudges WHERE job_id = 'empty' ORDER BY gpu_hours, status DESC")
    assert [tuple(row.values()) for row in kept] == [
        ("empty", "warn", "sent", None, 2.0, 18.0, hour(10), hour(10)),
        ("empty", "final", "sent", None, 2.0, 19.5, hour(10.75), hour(10.75)),
        ("empty", "cancel", "started", None, 2.0, 20.0, hour(11), hour(11)),
        ("empty", "cancel", "done", 0, 2.0, 20.0, hour(11), hour(11)),
    ]


def test_a_line_of_the_journal_that_was_cut_short_takes_no_other_with_it(lake: Config) -> None:
    (lake.lake / "nudges.jsonl").write_text('{"seen_at": "2026-01-01T0')
    nudges(lake, hour(10), at=hour(10))
    assert len(rows_of(Lake(lake), "SELECT * FROM nudges")) == 3


def test_two_at_a_time_do_not_act(lake: Config) -> None:
    with Lake(lake).writing(), pytest.raises(LakeBusyError):
        nudges(lake, hour(10), at=hour(10))
    assert rows_of(Lake(lake), "SELECT * FROM nudges") == []


def command(config: Config, *arguments: str) -> str:
    answer = CliRunner().invoke(root, ["report", "nudges", *arguments, "--lake", str(config.lake)])
    if isinstance(answer.exception, GpulakeError):
        raise answer.exception
    assert answer.exit_code == 0, answer.output
    return answer.output


@pytest.mark.slow
def test_the_command_lists_due_nudges_with_user_and_message(lake: Config) -> None:
    text = command(lake, "--at", hour(10).isoformat())
    assert text.startswith("Due: warn 3, warn finally 0, cancel 0; left alone 0\n")
    assert "2 jobs of yours on pai: 2 GPUs held, and empty\nTo bob: these jobs" in text
    assert "nothing was cancelled" in text
    document = json.loads(command(lake, "--at", "2025-12-31T16:00", "--json"))
    assert document == {
        "is_executed": False,
        "counts": {"warn": 0, "final": 0, "cancel": 0, "left alone": 0},
        "nudges": [],
        "messages": [],
    }
    assert "no job holds GPUs" in command(lake, "--at", "2025-12-31T16:00")
    assert command(lake, "--at", hour(10).isoformat(), "--execute").startswith("Done: warn 3")
    assert "warned 0 s ago" in command(lake, "--at", hour(10).isoformat())


def test_a_failed_cancellation_is_an_error_that_names_the_job(
    lake: Config, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for at in (10, 10.75):
        nudges(lake, hour(at), at=hour(at))
    settings = tmp_path / "gpulake.toml"
    settings.write_text(
        "[nudges]\nmost_stale_minutes = 1e9\n"
        f'cancel_command = ["{sys.executable}", "-c", "import sys; sys.exit(7)", "{{job_id}}"]\n'
    )
    monkeypatch.setenv("GPULAKE_CONFIG", str(settings))
    arguments = ["report", "nudges", "--at", hour(11).isoformat(), "--execute", "--json", "--lake", str(lake.lake)]
    answer = CliRunner().invoke(root, arguments)
    assert isinstance(answer.exception, GpulakeError)
    assert (answer.exception.exit_code, answer.exception.message) == (
        8,
        "cancelling job empty failed with exit code 7: ",
    )
    outcomes = {one["holder"]["job_id"]: one["outcome"] for one in json.loads(answer.output)["nudges"]}
    assert outcomes["empty"] == {"status": "failed", "exit_code": 7, "detail": ""}
    kept = rows_of(Lake(lake), "SELECT job_id, status, exit_code FROM nudges WHERE step = 'cancel' ORDER BY status")
    assert [tuple(row.values()) for row in kept] == [("empty", "failed", 7), ("empty", "started", None)]


def test_what_does_not_exist_is_an_error(lake: Config) -> None:
    bad_time = CliRunner().invoke(root, ["report", "nudges", "--at", "soon", "--lake", str(lake.lake)])
    assert bad_time.exit_code == 2
    assert "'soon' is no time" in bad_time.output
    with pytest.raises(UsageError, match="no cluster named 'pia'") as raised:
        command(lake, "--cluster", "pia")
    assert raised.value.hint == "did you mean 'pai'?"


def test_it_needs_a_build(config: Config, tmp_path: Path) -> None:
    Flow(config).land([write_trace(tmp_path / "raw", ATTEMPTS)])
    with pytest.raises(LakeError, match="no whole build yet"):
        command(config)
