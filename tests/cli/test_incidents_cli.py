"""gpulake incidents, as its user meets it."""

from __future__ import annotations

import getpass

import pytest
from click.testing import CliRunner

from cli.verbs import Verb
from conftest import rows_of
from diagnose.learning import QUOTA, record
from gpulake.cli import root
from gpulake.cli._words import Reason
from gpulake.core.errors import GpulakeError
from gpulake.lake import Lake

incidents = Verb("incidents")
document = incidents.document


@pytest.fixture
def past(lake: Lake) -> Lake:
    record(lake, "3f2a11", reason="RuntimeError", evidence=(QUOTA, "\x1b[31mred\x07 [bold]x[/]"))
    record(lake, "3f2b22", reason="OSError")
    record(lake, "9c0000", reason="unknown")
    return lake


def test_list_shows_incidents_as_they_stand(past: Lake) -> None:
    assert [one["incident_id"] for one in document(past, "list")] == ["9c0000", "3f2b22", "3f2a11"]
    assert [one["incident_id"] for one in document(past, "list", "--reason", "OSError")] == ["3f2b22"]
    assert document(past, "list", "--state", "muted") == []
    assert "/logs/3f2a11.log" in incidents(past, "list").output
    assert incidents(past, "list", "--state", "gone").exit_code == 2


def test_confirm_and_correct_are_kept_with_who_said_so(past: Lake) -> None:
    answer = incidents(past, "confirm", "3f2b", "--note", "looked at the disk", "--by", "ada")
    assert answer.output == "3f2b22: confirmed, OSError (it broke)\n"
    changed = document(past, "correct", "9c", "--reason", "DiskFull", "--cause", "full", "--remedy", "Delete.")
    assert (changed["changed_by"], changed["category"], changed["is_confirmed"]) == (
        getpass.getuser(),
        "infrastructure",
        True,
    )
    query = "SELECT incident_id, event, changed_by, reason, cause, remedy, is_confirmed, note, words FROM incidents"
    assert rows_of(past, f"{query} ORDER BY 1") == [
        _row("3f2a11", "opened", "gpulake", "RuntimeError", "it broke", "mend it", False, None),
        _row("3f2b22", "confirmed", "ada", "OSError", "it broke", "mend it", True, "looked at the disk"),
        _row("9c0000", "corrected", getpass.getuser(), "DiskFull", "full", "Delete.", True, ""),
    ]


def _row(*values: object) -> dict[str, object]:
    names = ("incident_id", "event", "changed_by", "reason", "cause", "remedy", "is_confirmed", "note")
    return {**dict(zip(names, values, strict=True)), "words": "it broke"}


def test_show_tells_history_evidence_and_similar_cases(past: Lake) -> None:
    incidents(past, "correct", "3f2a", "--reason", "DiskFull", "--note", "it was the quota", "--by", "ada")
    shown = incidents(past, "show", "3f2a").output
    for words in (
        "3f2a11: DiskFull, open, confirmed",
        "Last diagnosis: RuntimeError, by rule some_rule",
        f"10: {QUOTA}",
        "[bold]x[/]",
        "older  DiskFull, confirmed: full",
        "opened by gpulake, RuntimeError",
        "corrected by ada, DiskFull: it was the quota",
    ):
        assert words in shown
    assert "\x1b" not in shown
    assert "\x07" not in shown
    whole = document(past, "show", "3f2a")
    assert [event["event"] for event in whole["history"]] == ["opened", "corrected"]
    assert whole["diagnosis"]["evidence"][0] == {"line": 10, "text": QUOTA}
    assert whole["diagnosis"]["similar"][0]["incident_id"] == "older"


def test_an_incident_that_opened_without_a_diagnosis_is_shown(past: Lake) -> None:
    row = {
        "incident_id": "bare",
        "changed_at": "2026-01-05T00:00:00+00:00",
        "event": "opened",
        "changed_by": "x",
        "state": "open",
    }
    past.append("incident_events", [row])
    assert document(past, "show", "bare")["diagnosis"] is None
    assert incidents(past, "show", "bare").exit_code == 0


@pytest.mark.parametrize(
    ("arguments", "hint"),
    [
        (("show", "3f2a12"), "did you mean 3f2a11 or 3f2b22?"),
        (("confirm", "3f2"), "choose from: 3f2a11, 3f2b22"),
        (("confirm", "zz"), "list them with: gpulake incidents list"),
        (("confirm", "9c"), "say what it was: gpulake incidents correct 9c0000 --reason REASON"),
        (("correct", "x" * 500, "--reason", "DiskFull"), "list them with: gpulake incidents list"),
    ],
)
def test_an_incident_that_is_not_meant_gets_a_hint(past: Lake, arguments: tuple[str, ...], hint: str) -> None:
    answer = incidents(past, *arguments)
    assert isinstance(answer.exception, GpulakeError)
    assert (answer.exception.exit_code, answer.exception.hint) == (2, hint)


def test_a_reason_is_checked_and_completed_by_the_shell(past: Lake) -> None:
    answer = incidents(past, "correct", "9c", "--reason", "DiskFul")
    assert answer.exit_code == 2
    assert "did you mean 'DiskFull'?" in answer.output
    assert incidents(past, "correct", "9c").exit_code == 2
    assert incidents(past, "correct", "9c", "--reason", "unknown").exit_code == 2
    found = Reason().shell_complete(None, None, "nccl")  # type: ignore[arg-type]
    assert [item.value for item in found] == ["NCCLConfigError", "NCCLRemoteError", "NCCLTimeoutError"]


def test_where_there_are_none_it_says_what_to_do(lake: Lake) -> None:
    for more in ((), ("--state", "open")):
        answer = CliRunner().invoke(root, ["incidents", "list", *more, "--lake", str(lake.root)])
        assert (answer.exit_code, answer.stdout) == (0, "")
        assert "gpulake diagnose LOG" in answer.stderr
