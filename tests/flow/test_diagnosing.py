"""A diagnosis with the lake: its past, its rules, its tables."""

from __future__ import annotations

from pathlib import Path

import pytest

from conftest import rows_of
from gpulake.core.clock import FrozenClock
from gpulake.core.config import Config
from gpulake.diagnose.api import Answer
from gpulake.diagnose.diagnoser import DiagnosisRequest
from gpulake.diagnose.learn.learning import decide
from gpulake.diagnose.learn.proposing import Proposal, propose_line
from gpulake.flow import Flow
from gpulake.flow.incidents import change
from gpulake.lake import Lake

LOG = """step 1 of {rank}
step 2 of {rank}
Traceback (most recent call last):
  File "/home/{user}/train.py", line {rank}, in <module>
    state = load("/data/{user}/shard-{rank}.bin")
OSError: [Errno 5] Input/output error: '/data/{user}/shard-{rank}.bin'
"""
QUIET = "step 1\nstep 2\nstep 3\n"


@pytest.fixture
def flow(lake: Lake, clock: FrozenClock) -> Flow:
    return Flow(lake.config, clock)


def ask(flow: Flow, folder: Path, name: str, text: str, **more: object) -> Answer:
    path = folder / name
    path.write_text(text)
    return flow.diagnose(DiagnosisRequest(path, **more))  # type: ignore[arg-type]


def test_what_was_found_is_seen_through_sql(flow: Flow, tmp_path: Path) -> None:
    found = ask(flow, tmp_path, "a.log", LOG.format(rank=3, user="ann"), job_id="7").diagnosis
    reported = rows_of(flow.lake, "SELECT incident_id, job_id, verdict, reason, action, log, lines_read FROM diagnoses")
    assert reported == [
        {
            "incident_id": found.incident_id,
            "job_id": "7",
            "verdict": "failed",
            "reason": found.reason,
            "action": found.recovery.action,
            "log": str(tmp_path / "a.log"),
            "lines_read": 6,
        }
    ]
    assert rows_of(flow.lake, "SELECT incident_id, state, reason, changed_by FROM incidents") == [
        {"incident_id": found.incident_id, "state": "open", "reason": found.reason, "changed_by": "gpulake"}
    ]
    templates = rows_of(flow.lake, "SELECT template, lines FROM log_templates WHERE template LIKE 'step%'")
    assert templates == [{"template": "step of", "lines": 2}]
    assert rows_of(flow.lake, "SELECT step, status FROM runs") == [{"step": "diagnose", "status": "succeeded"}]


def test_the_same_log_twice_is_one_incident(flow: Flow, tmp_path: Path) -> None:
    first, second = (ask(flow, tmp_path, "a.log", LOG.format(rank=3, user="ann")).diagnosis for _ in range(2))
    assert first.incident_id == second.incident_id
    assert rows_of(flow.lake, "SELECT count(*) AS n FROM incidents") == [{"n": 1}]
    assert rows_of(flow.lake, "SELECT event FROM incident_events ORDER BY event") == [
        {"event": "opened"},
        {"event": "updated"},
    ]
    assert second.similar == ()


def test_a_healthy_log_opens_no_incident(flow: Flow, tmp_path: Path) -> None:
    found = ask(flow, tmp_path, "a.log", QUIET + "training finished: 3 iterations in 1.0 s\n").diagnosis
    assert (found.verdict, found.incident_id) == ("healthy", "")
    assert rows_of(flow.lake, "SELECT verdict, incident_id FROM diagnoses") == [
        {"verdict": "healthy", "incident_id": ""}
    ]
    assert rows_of(flow.lake, "SELECT * FROM incidents") == []


def test_a_confirmed_incident_of_the_same_kind_is_recalled(flow: Flow, tmp_path: Path, clock: FrozenClock) -> None:
    first = ask(flow, tmp_path, "a.log", LOG.format(rank=3, user="ann")).diagnosis
    change(flow.lake, clock, "confirm", first.incident_id, "bob")
    [case] = ask(flow, tmp_path, "b.log", LOG.format(rank=511, user="eve")).diagnosis.similar
    assert (case.incident_id, case.score, case.is_confirmed) == (first.incident_id, 1.0, True)


def test_an_approved_rule_is_used_and_a_candidate_is_not(flow: Flow, tmp_path: Path, clock: FrozenClock) -> None:
    line = "fabric: the flux capacitor of rack 12 is drained"
    log = f"{QUIET}{line}\n"
    proposed = propose_line(
        flow.lake, clock, line, Proposal("ann", "NodeFailure", "The flux is gone.", "Drain the rack.")
    )
    assert ask(flow, tmp_path, "a.log", log).diagnosis.reason != "NodeFailure"
    decide(flow.lake, clock, proposed, "approved", "bob")
    found = ask(flow, tmp_path, "a.log", log).diagnosis
    assert (found.reason, found.rule, found.evidence[0].line) == ("NodeFailure", proposed.name, 4)


def test_a_lake_that_is_being_built_does_not_hold_a_diagnosis_up(flow: Flow, tmp_path: Path) -> None:
    with Lake(flow.config).writing():
        found = ask(flow, tmp_path, "a.log", LOG.format(rank=3, user="ann"), job_id="7").diagnosis
    assert rows_of(flow.lake, "SELECT incident_id FROM diagnoses") == [{"incident_id": found.incident_id}]


def test_what_is_followed_is_recorded_too(lake: Lake, tmp_path: Path, clock: FrozenClock) -> None:
    def wait(seconds: float) -> None:
        clock.elapsed_seconds += seconds

    path = tmp_path / "a.log"
    path.write_text(LOG.format(rank=3, user="ann"))
    flow = Flow(lake.config, clock, wait=wait)
    [notice] = flow.follow(DiagnosisRequest(path), is_until_end=True)
    assert notice.diagnosis is not None
    assert rows_of(lake, "SELECT incident_id FROM incidents") == [{"incident_id": notice.diagnosis.incident_id}]
    whole = flow.diagnose(DiagnosisRequest(path)).diagnosis
    assert (whole.incident_id, whole.reason) == (notice.diagnosis.incident_id, notice.diagnosis.reason)


def test_without_a_lake_nothing_is_recalled_or_recorded(config: Config, tmp_path: Path) -> None:
    found = ask(Flow(config), tmp_path, "a.log", LOG.format(rank=3, user="ann")).diagnosis
    assert (found.verdict, found.incident_id, found.similar) == ("failed", "", ())
    assert not config.lake.exists()
