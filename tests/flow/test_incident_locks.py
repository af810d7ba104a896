"""Changes of incidents by several at once: none is lost, and one that was torn in the middle can be repeated."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from gpulake.act.alerts.sending import LOCK as ALERTS
from gpulake.cli import root
from gpulake.core.clock import FrozenClock
from gpulake.core.diagnosis import Diagnosis, Quote
from gpulake.core.errors import LakeBusyError, UsageError
from gpulake.core.incidents import LOCK, Incident
from gpulake.diagnose.past.recording import record
from gpulake.flow.alerting import watch_alerts
from gpulake.flow.incidents import change
from gpulake.lake import Lake

FOUND = Diagnosis("failed", "script", "KeyError", "No such key", evidence=(Quote(1, "KeyError: 'x'"),))


def opened(lake: Lake, clock: FrozenClock, name: str = "a") -> str:
    return record(lake, clock, FOUND, (), Path(f"/logs/{name}.log"))


def standing(lake: Lake, name: str) -> Incident:
    return lake.incidents.standing()[name]


class Interrupted(Lake):
    """Before the first change of an incident is written, somebody else tries another one. Under a lock, he waits."""

    other: Callable[[], object]
    started: threading.Thread | None = None

    def append(self, table: str, rows: Sequence[Mapping[str, Any]]) -> None:
        if table == "incident_events" and self.started is None:
            self.started = threading.Thread(target=self.other)
            self.started.start()
            self.started.join(0.3)
        super().append(table, rows)


@pytest.mark.parametrize("first", ["confirm", "correct", "diagnose"])
def test_two_changes_at_once_are_both_kept(lake: Lake, clock: FrozenClock, first: str) -> None:
    name = opened(lake, clock)
    busy = Interrupted(lake.config)
    if first == "diagnose":
        busy.other = lambda: change(Lake(lake.config), clock, "correct", name, "eve", reason="DiskFull")
        record(busy, clock, FOUND, (), Path("/logs/a.log"))
    else:
        busy.other = lambda: change(Lake(lake.config), clock, "acknowledge", name, "eve")
        values = {"reason": "DiskFull"} if first == "correct" else {}
        change(busy, clock, first, name, "ann", **values)
    assert busy.started is not None
    busy.started.join()
    last = standing(lake, name)
    expected = {"confirm": ("acknowledged", "KeyError"), "correct": ("acknowledged", "DiskFull")}
    assert (last.state, last.reason) == expected.get(first, ("open", "DiskFull"))
    assert last.is_confirmed


def test_waiting_too_long_for_the_lock_is_an_error(
    lake: Lake, clock: FrozenClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = opened(lake, clock)
    monkeypatch.setattr("gpulake.core.locks.MOST_WAIT_SECONDS", 0.0)
    with Lake(lake.config).alone(LOCK), pytest.raises(LakeBusyError, match="another gpulake works on the incidents"):
        change(lake, clock, "confirm", name, "ann")


class Torn(Lake):
    """The process ends after the first of several rows."""

    def append(self, table: str, rows: Sequence[Mapping[str, Any]]) -> None:
        super().append(table, rows[:1])
        raise KeyboardInterrupt


def test_a_change_of_several_that_was_torn_is_repeated(lake: Lake, clock: FrozenClock) -> None:
    names = [opened(lake, clock, name) for name in "abc"]
    with pytest.raises(KeyboardInterrupt):
        change(Torn(lake.config), clock, "acknowledge", names, "ann")
    again = change(lake, clock, "acknowledge", names, "ann")
    assert [one.incident_id for one in again.skipped] == names[:1]
    assert [one.incident_id for one in again.made] == names[1:]
    assert {standing(lake, name).state for name in names} == {"acknowledged"}
    rows = lake.journal("incident_events")
    assert change(lake, clock, "acknowledge", names, "ann").made == []
    assert lake.journal("incident_events") == rows
    change(lake, clock, "resolve", names[:1], "ann")
    # What is over is not looked after again: that is no repetition.
    with pytest.raises(UsageError, match="is resolved"):
        change(lake, clock, "acknowledge", names, "ann")


@pytest.mark.parametrize(("verb", "state"), [("ack", "acknowledged"), ("resolve", "resolved"), ("unmute", "open")])
def test_the_command_says_what_was_so_already(lake: Lake, clock: FrozenClock, verb: str, state: str) -> None:
    names = [opened(lake, clock, name) for name in "ab"]

    def incidents(*arguments: str) -> str:
        answer = CliRunner().invoke(root, ["incidents", *arguments, "--by", "ann", "--lake", str(lake.root)])
        assert answer.exit_code == 0, answer.exception
        return answer.stdout

    if verb == "unmute":
        incidents("mute", *names)
    incidents(verb, names[0])
    said = incidents(verb, *names)
    assert f"{names[0]} is already {state}: skipped\n" in said
    assert {standing(lake, name).state for name in names} == {state}
    shown = json.loads(incidents(verb, *names, "--json"))
    assert [one["state"] for one in shown] == [state, state]


def test_a_watch_waits_for_the_holder_of_the_lock(lake: Lake, clock: FrozenClock) -> None:
    class StopError(Exception):
        pass

    waited: list[float] = []
    held = Lake(lake.config).alone(ALERTS)
    held.__enter__()

    def wait(seconds: float) -> None:
        waited.append(seconds)
        if len(waited) == 2:
            held.__exit__(None, None, None)
        if len(waited) == 3:
            raise StopError

    drains = watch_alerts(lake, clock, wait)
    assert next(drains).sent == 0
    assert len(waited) == 2
    with pytest.raises(StopError):
        next(drains)
