from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from conftest import rows_of
from gpulake.core.clock import FrozenClock
from gpulake.core.diagnosis import Diagnosis, Quote, Recovery, Symptom
from gpulake.core.incidents import Incident, acknowledged
from gpulake.diagnose.logs.digest import Digest, Template
from gpulake.diagnose.past.recall import words_for
from gpulake.diagnose.past.recording import incident_id, record, severity
from gpulake.lake import Lake

AT = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
BEGAN = datetime(2026, 1, 1, 8, tzinfo=UTC)
FOUND = Diagnosis(
    verdict="failed",
    category="infrastructure",
    reason="ECCError",
    cause="GPU 3 of gpu-17 has an uncorrectable memory error.",
    remedy="Drain the node.",
    evidence=(Quote(12, "CUDA error: uncorrectable ECC error encountered"),),
    symptoms=(Symptom(20, "Connection closed by peer", reason="ConnectionError"),),
    rank=3,
    node="gpu-17",
    recovery=Recovery("cordon_node_and_restart", "the GPU is broken"),
    confidence=0.9,
    rule="ecc",
    telemetry=("It was hot.",),
    lines_read=100,
    lines_kept=7,
    gpu_hours_lost=0.0,
    began_at=BEGAN,
    ended_at=BEGAN + timedelta(hours=1),
)
HEALTHY = Diagnosis("healthy", "none", "NotAFailure", "It ended well.", began_at=BEGAN)
DIGEST = Digest("", (), 100, 7, 4_000, (Template("step loss", 90, 4, "step 1 loss 2", True),))


def _events(lake: Lake) -> list[tuple[object, object, object]]:
    query = "SELECT event, state, reason FROM incident_events"
    return [(row["event"], row["state"], row["reason"]) for row in rows_of(lake, query)]


def test_a_diagnosis_lands_in_its_tables(lake: Lake, clock: FrozenClock) -> None:
    incident = record(lake, clock, FOUND, [DIGEST], Path("/logs/train.log"))

    [diagnosis] = rows_of(lake, "SELECT * FROM diagnoses")
    assert {name: value for name, value in diagnosis.items() if name not in ("evidence", "symptoms", "telemetry")} == {
        "diagnosis_id": diagnosis["diagnosis_id"],
        "incident_id": incident,
        "diagnosed_at": AT,
        "log": "/logs/train.log",
        "run": 1,
        "runs": 1,
        "cluster_id": None,
        "job_id": None,
        "claimed_job_id": None,
        "verdict": "failed",
        "category": "infrastructure",
        "reason": "ECCError",
        "cause": FOUND.cause,
        "remedy": "Drain the node.",
        "rank": 3,
        "node": "gpu-17",
        "is_node_claimed": True,
        "action": "cordon_node_and_restart",
        "action_why": "the GPU is broken",
        "confidence": 0.9,
        "method": "rule",
        "rule": "ecc",
        "similar": "[]",
        "lines_read": 100,
        "lines_kept": 7,
        "gpu_hours_lost": 0.0,
        "began_at": BEGAN,
        "ended_at": FOUND.ended_at,
    }
    assert [json.loads(str(diagnosis[name])) for name in ("evidence", "symptoms", "telemetry")] == [
        [{"line": 12, "text": "CUDA error: uncorrectable ECC error encountered"}],
        [{"line": 20, "text": "Connection closed by peer", "reason": "ConnectionError"}],
        ["It was hot."],
    ]
    assert rows_of(lake, "SELECT * FROM log_templates") == [
        {
            "diagnosis_id": diagnosis["diagnosis_id"],
            "file": "",
            "template": "step loss",
            "lines": 90,
            "first_line": 4,
            "example": "step 1 loss 2",
            "is_routine": True,
        }
    ]
    assert rows_of(lake, "SELECT * FROM incidents") == [
        {
            "incident_id": incident,
            "changed_at": AT,
            "event": "opened",
            "changed_by": "gpulake",
            "kind": "failure",
            "state": "open",
            "severity": "critical",
            "subject": "/logs/train.log",
            "cluster_id": None,
            "job_id": None,
            "node": None,
            "opened_at": AT,
            "diagnosis_id": diagnosis["diagnosis_id"],
            "category": "infrastructure",
            "reason": "ECCError",
            "cause": FOUND.cause,
            "remedy": "Drain the node.",
            "is_confirmed": False,
            "words": words_for(FOUND),
            "gpu_hours_lost": 0.0,
            "note": "",
            "began_at": FOUND.began_at,
            "last_seen_at": FOUND.ended_at,
            "times_seen": 1,
            "first_cause": "",
            "members": "[]",
            "muted_until": None,
            "is_held": False,
            "merged_into": "",
            "claimed_job_id": None,
            "claimed_node": "gpu-17",
            "assigned_to": "",
            "revision": 1,
        }
    ]


def test_the_same_run_again_updates_its_incident(lake: Lake, clock: FrozenClock) -> None:
    first = record(lake, clock, FOUND, [], Path("/logs/train.log"))
    clock.at += timedelta(hours=1)
    second = record(lake, clock, replace(FOUND, reason="XidError"), [], Path("/logs/train.log"))
    assert first == second
    assert _events(lake) == [("opened", "open", "ECCError"), ("updated", "open", "XidError")]
    [incident] = rows_of(lake, "SELECT opened_at, changed_at, reason FROM incidents")
    assert incident == {"opened_at": AT, "changed_at": clock.at, "reason": "XidError"}
    assert len({row["diagnosis_id"] for row in rows_of(lake, "SELECT diagnosis_id FROM diagnoses")}) == 2


def test_another_run_log_or_begin_is_another_incident() -> None:
    ids = {
        incident_id(FOUND, "/a"),
        incident_id(FOUND, "/b"),
        incident_id(replace(FOUND, run=2), "/a"),
        incident_id(replace(FOUND, began_at=None), "/a"),
        incident_id(replace(FOUND, job_id="7"), "/a"),
        incident_id(replace(FOUND, job_id="7", cluster_id="tiger"), "/a"),
    }
    assert len(ids) == 6
    moved = replace(FOUND, job_id="7", cluster_id="tiger")
    assert incident_id(moved, "/a") == incident_id(moved, "/moved")  # a job's log may be copied


def test_a_failure_that_an_older_version_recorded_keeps_its_id(lake: Lake, clock: FrozenClock) -> None:
    new = incident_id(FOUND, "/logs/train.log")
    old = f"f-{new.removeprefix('i-')}"
    lake.append("incident_events", [Incident(old, AT, "opened", "gpulake", reason="KeyError").row()])
    assert record(lake, clock, FOUND, [], Path("/logs/train.log")) == old
    assert [(one.incident_id, one.reason) for one in lake.incidents.standing().values()] == [(old, "ECCError")]


def test_a_healthy_run_resolves_no_incident_that_a_person_holds_open(lake: Lake, clock: FrozenClock) -> None:
    log = Path("/logs/train.log")
    incident = record(lake, clock, FOUND, [], log)
    with lake.incidents.changing() as incidents:
        incidents.append([acknowledged(incidents.histories[incident][-1], "ann", AT, is_held=True)])
    record(lake, clock, HEALTHY, [], log)
    last = lake.incidents.standing()[incident]
    assert (last.event, last.state, last.is_held) == ("updated", "acknowledged", True)


def test_a_healthy_run_opens_no_incident_and_is_recorded(lake: Lake, clock: FrozenClock) -> None:
    assert record(lake, clock, HEALTHY, [], "stdin") == ""
    assert rows_of(lake, "SELECT * FROM incidents") == []
    assert rows_of(lake, "SELECT verdict, incident_id, log FROM diagnoses") == [
        {"verdict": "healthy", "incident_id": "", "log": "stdin"}
    ]


def test_a_run_that_ends_well_after_all_resolves_its_incident_and_fails_again_reopens_it(
    lake: Lake, clock: FrozenClock
) -> None:
    log = Path("/logs/train.log")
    incident = record(lake, clock, FOUND, [], log)
    assert record(lake, clock, HEALTHY, [], log) == incident
    [row] = rows_of(lake, "SELECT state, reason, severity FROM incidents")
    assert row == {"state": "resolved", "reason": "ECCError", "severity": "critical"}
    record(lake, clock, FOUND, [], log)
    assert _events(lake) == [
        ("opened", "open", "ECCError"),
        ("resolved", "resolved", "ECCError"),
        ("reopened", "open", "ECCError"),
    ]


def test_what_a_person_said_stays(lake: Lake, clock: FrozenClock) -> None:
    log = Path("/logs/train.log")
    incident = record(lake, clock, FOUND, [], log)
    [said] = lake.journal("incident_events")
    corrected = {
        "event": "corrected",
        "changed_by": "ann",
        "state": "resolved",
        "reason": "XidError",
        "is_confirmed": True,
    }
    lake.append("incident_events", [{**said, **corrected, "note": "GPU replaced"}])
    clock.at += timedelta(hours=1)
    for _ in range(2):
        assert record(lake, clock, FOUND, [], log) == incident
    [row] = rows_of(lake, "SELECT event, changed_by, state, reason, is_confirmed, note FROM incidents")
    assert row == {
        "event": "updated",
        "changed_by": "gpulake",
        "state": "resolved",
        "reason": "XidError",
        "is_confirmed": True,
        "note": "GPU replaced",
    }


def test_a_clock_that_was_set_back_hides_no_change(lake: Lake, clock: FrozenClock) -> None:
    log = Path("/logs/train.log")
    record(lake, clock, FOUND, [], log)
    clock.at -= timedelta(days=1)
    record(lake, clock, replace(FOUND, reason="XidError"), [], log)
    assert [row["reason"] for row in rows_of(lake, "SELECT reason FROM incidents")] == ["XidError"]


def test_a_build_that_runs_does_not_stop_a_diagnosis(lake: Lake, clock: FrozenClock) -> None:
    with lake.writing():
        incident = record(lake, clock, FOUND, [DIGEST], Path("/logs/train.log"))
    assert [row["incident_id"] for row in rows_of(lake, "SELECT incident_id FROM incidents")] == [incident]


@pytest.mark.parametrize("cut_after", ["log_templates", "diagnoses"])
def test_a_crash_leaves_the_incidents_as_they_were(
    lake: Lake, clock: FrozenClock, monkeypatch: pytest.MonkeyPatch, cut_after: str
) -> None:
    class Crash(BaseException):
        pass

    append = lake.append

    def crashing(table: str, rows: list[dict[str, object]]) -> None:
        append(table, rows)
        if table == cut_after:
            raise Crash

    record(lake, clock, FOUND, [DIGEST], Path("/logs/train.log"))
    before = rows_of(lake, "SELECT * FROM incidents")
    with monkeypatch.context() as patched:
        patched.setattr(lake, "append", crashing)
        with pytest.raises(Crash):
            record(lake, clock, replace(FOUND, reason="XidError"), [DIGEST], Path("/logs/train.log"))
    assert rows_of(lake, "SELECT * FROM incidents") == before
    record(lake, clock, replace(FOUND, reason="XidError"), [DIGEST], Path("/logs/train.log"))
    assert [row["reason"] for row in rows_of(lake, "SELECT reason FROM incidents")] == ["XidError"]


@pytest.mark.parametrize(
    ("diagnosis", "expected"),
    [
        (FOUND, "critical"),
        (Diagnosis("failed", "infrastructure", "NCCLTimeoutError", "x"), "critical"),
        (Diagnosis("failed", "script", "KeyError", "x", recovery=Recovery("needs_code_fix")), "warning"),
        (Diagnosis("unknown", "unknown", "unknown", "x"), "warning"),
        (HEALTHY, "info"),
    ],
)
def test_the_severity_says_whether_others_will_be_hit(diagnosis: Diagnosis, expected: str) -> None:
    assert severity(diagnosis) == expected


def test_rows_of_others_in_the_journal_do_not_stop_a_diagnosis(lake: Lake, clock: FrozenClock) -> None:
    incident = record(lake, clock, FOUND, [DIGEST], Path("/logs/train.log"))
    with (lake.root / "incidents.jsonl").open("a") as journal:
        for changed_at in (None, 7, "yesterday", "2030-01-01T00:00:00"):
            journal.write(json.dumps({"incident_id": incident, "changed_at": changed_at, "state": "resolved"}) + "\n")
        journal.write(json.dumps({"incident_id": incident}) + "\n")
    assert record(lake, clock, FOUND, [DIGEST], Path("/logs/train.log")) == incident
    last = lake.journal("incident_events")[-1]
    assert (last["event"], last["state"]) == ("updated", "open")
