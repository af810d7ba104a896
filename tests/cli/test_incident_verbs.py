"""gpulake incidents ack, mute, unmute, resolve, update and windows, as their user meets them."""

from __future__ import annotations

import pytest

from cli.verbs import Verb
from conftest import rows_of
from diagnose.learning import record
from gpulake.core.config import Config
from gpulake.core.errors import UsageError
from gpulake.flow import Flow
from gpulake.lake import Lake

incidents = Verb("incidents")
document = incidents.document


def states(lake: Lake) -> list[tuple[object, ...]]:
    return [tuple(row.values()) for row in rows_of(lake, "SELECT incident_id, state FROM incidents ORDER BY 1")]


@pytest.fixture
def past(lake: Lake) -> Lake:
    record(lake, "3f2a11", reason="RuntimeError")
    record(lake, "9c0000", reason="OSError")
    return lake


def test_incidents_are_acknowledged_muted_unmuted_and_resolved(past: Lake) -> None:
    answer = incidents(past, "ack", "3f", "9c", "--by", "ada", "--note", "on it", "--hold")
    assert answer.output == (
        "3f2a11: acknowledged, RuntimeError (it broke)\n9c0000: acknowledged, OSError (it broke)\n"
    )
    assert states(past) == [("3f2a11", "acknowledged"), ("9c0000", "acknowledged")]
    (mute,) = document(past, "mute", "9c", "--for", "2h", "--by", "ada")
    assert (mute["state"], mute["muted_until"] is not None, mute["is_held"]) == ("muted", True, True)
    assert "held open by a person, muted until " in incidents(past, "show", "9c").output
    assert document(past, "unmute", "9c")[0]["state"] == "open"
    (over,) = document(past, "resolve", "9c", "--by", "ada", "--note", "mended")
    assert (over["state"], over["changed_by"], over["note"], over["is_held"]) == ("resolved", "ada", "mended", False)
    assert "resolved by ada, OSError: mended" in incidents(past, "show", "9c").output


def test_all_change_or_none(past: Lake) -> None:
    answer = incidents(past, "ack", "3f", "nothing")
    assert isinstance(answer.exception, UsageError)
    assert states(past) == [("3f2a11", "open"), ("9c0000", "open")]
    answer = incidents(past, "unmute", "3f")
    assert isinstance(answer.exception, UsageError)
    assert answer.exception.message == "incident 3f2a11 is open"
    assert incidents(past, "ack").exit_code == 2


@pytest.mark.parametrize(
    "flags",
    [
        ("--for", "2"),
        ("--for", "0h"),
        ("--for", "h"),
        ("--for", "9999d"),
        ("--until", "soon"),
        ("--until", "2099-01-01", "--for", "1h"),
    ],
)
def test_times_that_are_none_are_refused(past: Lake, flags: tuple[str, ...]) -> None:
    assert incidents(past, "mute", "3f", *flags).exit_code == 2
    assert states(past)[0] == ("3f2a11", "open")


def test_a_mute_that_is_over_is_refused(past: Lake) -> None:
    answer = incidents(past, "mute", "3f", "--until", "2020-01-01T10:00")
    assert isinstance(answer.exception, UsageError)
    assert answer.exception.message == "2020-01-01 10:00 UTC is over"


def test_windows_are_added_listed_and_removed(lake: Lake) -> None:
    hostile = "\x1b[31m[bold]x"
    window = document(lake, "windows", "add", "--node", "gpu-1?", "--for", "2h", "--by", "ada", "--note", hostile)
    name = window["window_id"]
    assert (window["node"], window["cluster"], window["changed_by"]) == ("gpu-1?", "*", "ada")
    assert incidents(lake, "windows", "add", "--weekdays", "Sat,Sun", "--hours", "22:00-06:00").exit_code == 0
    answer = incidents(lake, "windows", "list")
    assert "gpu-1?" in answer.output
    assert "sat,sun 22:00-06:00 UTC" in answer.output
    assert "\x1b[31m" not in answer.output
    assert incidents(lake, "windows", "remove", name[:6]).output == f"{name}: removed\n"
    assert len(document(lake, "windows", "list")) == 1
    assert len(document(lake, "windows", "list", "--all")) == 2
    assert rows_of(lake, "SELECT is_removed FROM maintenance_windows ORDER BY 1") == [
        {"is_removed": False},
        {"is_removed": True},
    ]
    assert isinstance(incidents(lake, "windows", "add").exception, UsageError)


def test_a_build_makes_incidents_of_its_findings_once(built_lake: Config) -> None:
    lake = Lake(built_lake)
    found = rows_of(lake, "SELECT subject FROM findings WHERE watch != ''")
    assert len(found) > 0
    made = document(lake, "list")
    assert sorted(one["subject"] for one in made) == sorted(str(row["subject"]) for row in found)
    assert {one["state"] for one in made} <= {"open", "resolved"}
    assert document(lake, "update") == []
    assert "nothing has changed" in incidents(lake, "update").stderr
    kind = made[0]["kind"]
    assert all(one["kind"] == kind for one in document(lake, "list", "--kind", kind))
    assert "What was seen" in incidents(lake, "show", made[0]["incident_id"]).output
    steps = rows_of(lake, "SELECT status FROM runs WHERE step = 'incidents'")
    assert {row["status"] for row in steps} == {"succeeded"}


def test_a_build_is_not_lost_because_somebody_updates_incidents(
    built_lake: Config, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gpulake.core.locks.MOST_WAIT_SECONDS", 0.0)
    flow = Flow(built_lake)
    with flow.lake.alone("incidents"):
        assert flow.build().is_new is False
        answer = incidents(flow.lake, "ack", "i-")
    assert answer.exit_code == 1
    assert "another gpulake works on the incidents of" in str(answer.exception)
