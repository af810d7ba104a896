"""What a stream has just landed is a finding at once: Xids and heat in samples, lost nodes, jobs that ended badly."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any

from gpulake.core.types import Finding
from gpulake.detect.sudden import EVENTS, JOBS, OBJECTS, Sudden
from gpulake.formats.messages import SAMPLES

NOW = datetime(2026, 1, 5, 12, tzinfo=UTC)
BLANK_JOB = {"User": "alice", "NodeList": "g2", "ExitCode": "1:0", "Cluster": None, "asked_at": NOW}
BLANK_OBJECT = dict.fromkeys(("node", "name", "reason", "message", "state", "state_since", "cluster", "fault_kind"))


def sample(metric: str, value: float, seconds: float, labels: dict[str, str] | None = None) -> dict[str, Any]:
    at_ms = int((NOW + timedelta(seconds=seconds)).timestamp() * 1000)
    words = json.dumps(labels or {"Hostname": "g1", "gpu": "3"})
    return {"metric": f"DCGM_FI_DEV_{metric}", "labels": words, "value": value, "ts_ms": at_ms}


def find(sudden: Sudden, table: str, *rows: dict[str, Any]) -> list[Finding]:
    return sudden.find(table, rows, {"g1": "tiger"}.__getitem__, NOW)


def test_an_xid_in_samples_is_a_fault_once_however_long_the_exporter_repeats_it() -> None:
    sudden = Sudden()
    found = find(sudden, SAMPLES, *(sample("XID_ERRORS", 79.0, second) for second in range(0, 60, 5)))
    assert [(one.kind, one.subject, one.severity, one.cluster_id) for one in found] == [
        ("node_fault", "g1", "critical", "tiger")
    ]
    assert "Xid 79 (GPU has fallen off the bus) of GPU 3" in found[0].headline
    assert find(sudden, SAMPLES, sample("XID_ERRORS", 79.0, 60)) == []
    assert len(find(sudden, SAMPLES, sample("XID_ERRORS", 48.0, 65))) == 1
    assert find(sudden, SAMPLES, sample("XID_ERRORS", 13.0, 70)) == []  # of the program, not of the board


def test_a_fault_that_was_reported_before_a_restart_is_not_reported_by_it() -> None:
    sudden = Sudden(reported=["g1"])
    assert find(sudden, SAMPLES, sample("XID_ERRORS", 79.0, 0)) == []
    assert len(find(sudden, SAMPLES, sample("XID_ERRORS", 79.0, 600))) == 1  # gone in between


def test_a_gpu_that_stays_hot_is_a_finding_after_seconds_and_again_after_ten_minutes() -> None:
    sudden = Sudden()
    assert find(sudden, SAMPLES, sample("GPU_TEMP", 91.0, 0), sample("GPU_TEMP", 91.0, 1)) == []
    found = find(sudden, SAMPLES, *(sample("GPU_TEMP", 91.0, second) for second in range(2, 662, 2)))
    assert [(one.kind, one.subject, one.began_at, one.ended_at) for one in found] == [
        ("hot_gpu", "g1 GPU 3", NOW, NOW + timedelta(seconds=seconds)) for seconds in (6, 606)
    ]


def test_a_blip_of_heat_and_samples_of_long_ago_are_no_findings() -> None:
    sudden = Sudden()
    assert find(sudden, SAMPLES, sample("GPU_TEMP", 91.0, 0), sample("GPU_TEMP", 91.0, 600)) == []
    assert find(sudden, SAMPLES, *(sample("GPU_TEMP", 91.0, -7200 + second) for second in range(60))) == []
    assert find(sudden, SAMPLES, sample("XID_ERRORS", 79.0, -7200)) == []
    assert find(sudden, SAMPLES, sample("XID_ERRORS", 79.0, 0, {"gpu": "3"})) == []  # of no known node


def test_a_job_that_its_node_lost_and_one_that_failed_are_told_apart() -> None:
    found = find(
        Sudden(),
        JOBS,
        {**BLANK_JOB, "JobID": "7", "State": "NODE_FAIL", "Cluster": "tiger"},
        {**BLANK_JOB, "JobID": "8", "State": "FAILED", "Cluster": "tiger"},
        {**BLANK_JOB, "JobID": "9", "State": "FAILED", "Cluster": "tiger", "asked_at": NOW - timedelta(days=1)},
    )
    assert [(one.kind, one.subject, one.headline, one.node) for one in found] == [
        ("lost_job", "7", "job 7 of alice ended as NODE_FAIL on g2", "g2"),
        ("failed_job", "8", "job 8 of alice ended as FAILED on g2", "g2"),
    ]


def test_a_node_that_is_not_ready_is_down_and_what_a_problem_detector_says_is_a_fault() -> None:
    event = {**BLANK_OBJECT, "kind": "Event", "node": "g1", "last_at": NOW}
    fault = {"fault_kind": "xid", "fault_code": 79, "fault_subject": "PCI:0000:3b:00"}
    found = find(
        Sudden(),
        OBJECTS,
        {**event, "reason": "NodeNotReady"},
        {**event, "reason": "XidError", **fault},
        {**BLANK_OBJECT, "kind": "Node", "name": "g1", "state": "True", "state_since": NOW},
        {**BLANK_OBJECT, "kind": "Node", "name": "g1", "state": "Unknown", "state_since": NOW},
    )
    assert [(one.kind, one.subject) for one in found] == [
        ("node_fault", "g1"),
        ("node_down", "g1"),
        ("node_down", "g1"),
    ]


def test_an_event_that_is_not_serious_is_no_finding() -> None:
    event = {"node": "g1", "ts_ms": NOW.timestamp() * 1000, "subject": "", "code": None}
    assert find(Sudden(), EVENTS, {**event, "kind": "oom_kill"}, {**event, "kind": "of_no_catalogue"}) == []
