"""Serious events of nodes that a stream has just landed: incidents, and their alerts, that wait for no build.

They are the same incidents as those of the next build, which finds the same faults.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from gpulake.core.errors import GpulakeError
from gpulake.core.incidents import Incident
from gpulake.core.rows import as_row

if TYPE_CHECKING:
    from gpulake.flow import Flow

TABLE = "bronze_node_events"
SERIOUS = ("critical", "warning")
CLUSTERS = "SELECT node_id, min(cluster_id) AS cluster_id FROM silver_nodes GROUP BY node_id"
NEVER = datetime.min.replace(tzinfo=UTC)


def open_incidents(flow: Flow, events: Iterable[dict[str, Any]]) -> list[Incident]:
    """The changes; none of them resolves anything. The events are rows of bronze_node_events."""
    from gpulake.act.incidents.findings import sightings
    from gpulake.act.incidents.grouping import group
    from gpulake.detect.faults import fault_finding
    from gpulake.flow.alerting import queue_alerts

    serious = [row for event in events if (row := _fault(event))]
    if not serious:
        return []
    clusters = _clusters(flow)
    known = flow.config.telemetry_cluster
    by_node = sorted(serious, key=lambda row: (row["node_id"], row["severity"], row["began_at"], row["kind"]))
    found = []
    for node, faults in groupby(by_node, itemgetter("node_id")):
        cluster = clusters.get(node, known)
        found.append(as_row(fault_finding([{**fault, "cluster_id": cluster} for fault in faults])))
    now = flow.clock.now()
    settings = flow.config.incidents
    with flow.lake.incidents.changing() as incidents:
        seen = sightings(found, settings, lambda _: now)
        changes = group(incidents.histories, seen, lambda _: NEVER, settings, now)
        incidents.append(changes)
    queue_alerts(flow.lake, flow.clock)
    if flow.sends_alerts_at_once:
        flow.send_alerts_if_free()
    return changes


def _fault(event: dict[str, Any]) -> dict[str, Any] | None:
    """As a row of the query of detect/faults.py; None for what is not serious."""
    from gpulake.formats.kernel import kernel_faults

    fault = kernel_faults().get(event["kind"])
    if fault is None:
        return None
    code = None if event["code"] is None else int(event["code"])
    known = fault.codes.get(code) if code is not None else None
    severity = known.severity if known else fault.severity
    if severity not in SERIOUS:
        return None
    at = datetime.fromtimestamp(event["ts_ms"] / 1000, UTC)
    return {
        "node_id": event["node"],
        "severity": severity,
        "kind": event["kind"],
        "code": code,
        "subject": event["subject"],
        "began_at": at,
        "ended_at": at,
        "events": 1,
        "jobs": [],
    }


def _clusters(flow: Flow) -> dict[str, str]:
    """Of each node, as the last build has it."""
    try:
        with flow.lake.reading() as reader:
            rows: Sequence[dict[str, Any]] = (
                reader.query(CLUSTERS).to_pylist() if "silver_nodes" in reader.tables() else []
            )
    except GpulakeError:
        return {}  # a build that cannot be read is for the next one to replace
    return {row["node_id"]: row["cluster_id"] for row in rows}
