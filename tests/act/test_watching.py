"""A recovery that runs unattended: which failures it takes up, and what keeps it from taking a step."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

import dead_jobs
from dead_jobs import NOW, Programs, died, recover, settings, trail
from gpulake.act.execution import Rescue
from gpulake.act.recovery import Asked
from gpulake.act.watching import STOP_FILE, summary
from gpulake.core.errors import ActError
from gpulake.core.recovery_settings import Recoveries
from gpulake.flow.recovering import GOING_ON, Event, watch
from gpulake.lake import Lake

ASKED = Asked("", "slurm", is_executed=True)
OWN = settings(restart_command=())


@pytest.fixture
def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Programs:
    monkeypatch.chdir(tmp_path)
    return dead_jobs.programs(tmp_path / "bin", monkeypatch)


class Ticking:
    """Each wait moves it on by a minute, after what is to happen meanwhile; it is over after the last."""

    def __init__(self, *meanwhile: Callable[[], object], minutes: float = 1.0) -> None:
        self.at, self._meanwhile, self._minutes = NOW, iter(meanwhile), minutes

    def now(self) -> datetime:
        return self.at

    def wait(self, seconds: float) -> bool:  # noqa: ARG002
        self.at += timedelta(minutes=self._minutes)
        happens = next(self._meanwhile, None)
        if happens:
            happens()
        return happens is None


def nothing() -> None:
    """Happens meanwhile."""


def watched(lake: Lake, clock: Ticking, own: Recoveries = OWN, asked: Asked = ASKED) -> list[Event]:
    lake = Lake(replace(lake.config, recoveries=own))
    return list(watch(lake, clock, asked, NOW - timedelta(hours=1), clock.wait, bool))  # type: ignore[arg-type]


def words(events: list[Event]) -> list[str]:
    return [summary(one, is_executed=True) if isinstance(one, Rescue) else str(one) for one in events]


def requeued(cluster: Programs) -> list[str]:
    return [call[2] for call in cluster.calls() if call[:2] == ["scontrol", "requeue"]]


def test_each_failure_is_recovered_once_also_those_that_come_later(lake: Lake, cluster: Programs) -> None:
    died(lake, "old", minutes=-90)
    died(lake, "a1", minutes=-30, job_id="1")
    clock = Ticking(lambda: died(lake, "b2", minutes=0.5, job_id="2"), nothing)
    assert words(watched(lake, clock)) == ["restart done", "restart done"]
    assert requeued(cluster) == ["1", "2"]
    assert words(watched(lake, Ticking(nothing))) == []
    assert requeued(cluster) == ["1", "2"]


def test_a_plan_is_shown_once_and_nothing_is_done_without_execute(lake: Lake, cluster: Programs) -> None:
    died(lake)
    (shown,) = watched(lake, Ticking(nothing, nothing), asked=Asked("", "slurm"))
    assert isinstance(shown, Rescue)
    assert summary(shown, is_executed=False) == "restart planned"
    assert (cluster.calls(), trail(lake)) == ([], [])


def test_no_step_is_taken_while_the_kill_switch_is_there(lake: Lake, cluster: Programs, tmp_path: Path) -> None:
    died(lake)
    switch = lake.root / STOP_FILE
    switch.touch()
    why = f"recoveries are stopped: {switch} exists"
    with pytest.raises(ActError, match="recoveries are stopped"):
        recover(lake)
    assert words(watched(lake, Ticking(nothing, switch.unlink))) == [why, GOING_ON, "restart done"]
    assert requeued(cluster) == ["77"]
    sites_own = tmp_path / "stop"
    sites_own.touch()
    died(lake, "b2", job_id="2")
    own = replace(OWN, stop_file=str(sites_own))
    assert words(watched(lake, Ticking(nothing), own)) == [f"recoveries are stopped: {sites_own} exists"]
    assert requeued(cluster) == ["77"]


def test_the_kill_switch_stops_between_two_steps_and_the_rest_follows(lake: Lake, cluster: Programs) -> None:
    switch = lake.root / STOP_FILE
    died(lake, node="n1", action="cordon_node_and_restart")
    own = settings(cordon_command=("cp", "{node}", str(switch)))  # whatever happens while the first step is taken
    Path("n1").touch()
    events = watched(lake, Ticking(nothing, switch.unlink), own, replace(ASKED, executor="command"))
    why = f"recoveries are stopped: {switch} exists"
    first, *notes, second = words(events)
    assert (first, notes) == (f"cordon n1 done; restart not taken ({why})", [why, GOING_ON])
    assert second == "restart done"
    assert cluster.calls() == [["hook", "restart", "77", "1"]]


def test_quiet_hours_delay_a_recovery(lake: Lake, cluster: Programs) -> None:
    died(lake)
    own = replace(OWN, quiet_hours=("11:00-12:02",))
    assert words(watched(lake, Ticking(nothing, nothing, nothing), own)) == [
        "these are quiet hours",
        GOING_ON,
        "restart done",
    ]
    assert requeued(cluster) == ["77"]


@pytest.mark.parametrize(
    ("hours", "zone", "is_quiet"),
    [
        ("22:00-06:00", "UTC", False),
        ("11:00-13:00", "UTC", True),
        ("13:00-12:30", "UTC", True),
        ("12:00-24:00", "UTC", True),
        ("11:00-12:00", "UTC", False),
        ("13:00-13:30", "Europe/Berlin", True),
    ],
)
def test_quiet_hours_are_those_of_their_time_zone(hours: str, zone: str, is_quiet: bool) -> None:
    assert Recoveries(quiet_hours=(hours,), time_zone=zone).is_quiet(datetime(2026, 1, 2, 12, tzinfo=UTC)) is is_quiet


def test_only_so_many_jobs_are_recovered_an_hour(lake: Lake, cluster: Programs) -> None:
    for number in range(3):
        died(lake, f"a{number}", job_id=str(number))
    own = replace(OWN, most_per_hour=2)
    note = "2 jobs were restarted within an hour, and 2 may be"
    assert words(watched(lake, Ticking(nothing, nothing), own)) == ["restart done", "restart done", note]
    assert words(watched(lake, Ticking(nothing, nothing, minutes=61), own)) == [note, GOING_ON, "restart done"]
    assert requeued(cluster) == ["0", "1", "2"]


def test_what_fails_is_tried_three_times(lake: Lake, cluster: Programs) -> None:
    cluster.answer(("requeue", 1, "not now"))
    died(lake)
    watched(lake, Ticking(*[nothing] * 30))
    assert requeued(cluster) == ["77"] * 3


def test_a_step_of_unknown_result_is_left_to_a_person(lake: Lake, cluster: Programs) -> None:
    died(lake)
    own = replace(OWN, restart_command=("sleep", "60", "{job_id}"), command_seconds=0.05)
    (first,) = words(watched(lake, Ticking(nothing, nothing), own))
    assert first == "restart unknown (did not end within 0.05 seconds)"
    (note,) = words(watched(lake, Ticking(nothing)))
    assert note.startswith("incident 4f1c2d: restart was begun at ")
    assert cluster.calls() == []


def test_a_lake_that_is_written_to_delays_a_recovery(lake: Lake, cluster: Programs) -> None:
    died(lake)
    writing: Iterator[Any] = iter([lake.writing()])
    held = next(writing)
    held.__enter__()
    events = watched(lake, Ticking(nothing, lambda: held.__exit__(None, None, None), nothing))
    assert words(events) == ["restart done"]
    assert requeued(cluster) == ["77"]


def test_a_diagnosis_by_the_schedulers_record_is_proof_enough_for_a_cordon(lake: Lake, cluster: Programs) -> None:
    died(lake, method="scheduler", reason="NodeFailure", action="cordon_node_and_restart", node="n1")
    assert words(watched(lake, Ticking(nothing))) == ["cordon n1 done; restart done"]
    assert [call[:3] for call in cluster.calls()] == [
        ["scontrol", "update", "nodename=n1"],
        ["scontrol", "requeue", "77"],
    ]
