"""A serious event of a node is a finding at once: what it was, whose job held the node, what to do."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from detect.scenes import BEGIN, HOUR, lake_of
from gpulake.core.types import Finding
from gpulake.detect.faults import node_faults
from gpulake.formats.kernel import kernel_faults

POWER_CYCLE = kernel_faults()["xid"].codes[79].remedy


def event(hours: float = 0.0, kind: str = "xid", code: int | None = 79, **values: Any) -> dict[str, Any]:
    row = {"cluster_id": "c", "node_id": "n1", "kind": kind, "code": code, "subject": "0000:3b:00"}
    return row | {"happened_at": BEGIN + hours * HOUR, "severity": "critical", **values}


def found(*events: dict[str, Any], jobs: bool = False) -> list[Finding]:
    nodes = [{"node_id": "n1", "machine_key": 7}]
    holdings = [
        {"machine_key": 7, "job_key": 1, "held_from": BEGIN - HOUR, "held_until": BEGIN},
        {"machine_key": 7, "job_key": 2, "held_from": BEGIN + HOUR, "held_until": BEGIN + 2 * HOUR},
        {"machine_key": 8, "job_key": 2, "held_from": BEGIN - HOUR, "held_until": BEGIN + HOUR},
    ]
    known = [{"job_key": 1, "job_id": "4711", "user_id": "ann"}, {"job_key": 2, "job_id": "4712", "user_id": None}]
    tables = {"silver_nodes": nodes, "silver_holdings": holdings if jobs else [], "silver_jobs": known}
    with lake_of({"silver_node_events": events, **tables}) as read:
        return node_faults(read)


def test_the_first_event_is_a_finding_with_the_job_that_held_the_node() -> None:
    (one,) = found(event(), jobs=True)
    assert one == Finding(
        kind="node_fault",
        subject="n1",
        headline=f"node n1 reported Xid 79 (GPU has fallen off the bus) of 0000:3b:00 at {BEGIN:%Y-%m-%d %H:%M} UTC",
        detail="Xid 79 (GPU has fallen off the bus) of 0000:3b:00 (1×); held then by job 4711 of ann",
        value=1.0,
        unit="events",
        day=str(BEGIN.date()),
        finding_id=one.finding_id,
        severity="critical",
        remedy=POWER_CYCLE,
        cluster_id="c",
        node="n1",
        began_at=BEGIN,
        ended_at=BEGIN,
    )


def test_the_most_severe_is_the_headline_and_the_rest_is_counted() -> None:
    lockup = event(kind="soft_lockup", code=None, subject="CPU#1", severity="warning")
    (one,) = found(
        lockup, lockup | {"happened_at": BEGIN + HOUR}, event(2.0, "pcie_fatal", None, subject="0000:3b:00.0")
    )
    at = BEGIN + 2 * HOUR
    assert one.headline == f"node n1 reported fatal PCIe errors of 0000:3b:00.0 at {at:%Y-%m-%d %H:%M} UTC"
    assert one.detail == (
        "fatal PCIe errors of 0000:3b:00.0 (1×), soft lockups of CPU#1 (2×); no job is known to have held it then"
    )
    assert (one.severity, one.value, one.began_at, one.ended_at) == ("critical", 3.0, BEGIN, at)
    assert one.remedy == kernel_faults()["pcie_fatal"].remedy


def test_events_hours_apart_are_two_findings_and_more_events_keep_the_id() -> None:
    first, later = event(), event(6.5)
    (newer, older) = found(first, later)
    assert (newer.began_at, older.began_at) == (BEGIN + timedelta(hours=6.5), BEGIN)
    (grown,) = found(first, event(0.5))
    assert (grown.finding_id, grown.began_at) == (older.finding_id, BEGIN)


def test_what_is_harmless_one_by_one_is_no_fault() -> None:
    assert found(event(severity="info"), event(kind="oom_kill", code=None, severity="info")) == []
    assert found() == []


def test_an_undocumented_code_is_shown_as_it_is() -> None:
    (one,) = found(event(code=990, severity="warning"))
    assert one.headline.startswith("node n1 reported Xid 990 of 0000:3b:00 at ")
    assert one.remedy == kernel_faults()["xid"].remedy
