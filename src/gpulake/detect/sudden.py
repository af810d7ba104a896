"""What cannot wait for a build: findings in rows that have just landed, table by table.

Serious events of nodes, Xids and heat in samples, nodes that Kubernetes reports lost, jobs that ended badly.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from itertools import groupby
from operator import itemgetter
from typing import Any, NamedTuple

from gpulake.core.types import Finding
from gpulake.detect.faults import fault_finding
from gpulake.detect.watches.hot_nodes import HOT_CELSIUS
from gpulake.formats.kernel import kernel_faults
from gpulake.formats.messages import SAMPLES
from gpulake.formats.names import written
from gpulake.formats.sample_rows import NODE_LABELS

EVENTS, JOBS, OBJECTS = "bronze_node_events", "bronze_slurm_jobs", "bronze_kubernetes_objects"
SERIOUS = ("critical", "warning")
LOST = ("NODE_FAIL", "BOOT_FAIL")  # of a job: not its own fault
FAILED = ("FAILED", "OUT_OF_MEMORY", "TIMEOUT", "DEADLINE")
OLDEST = timedelta(hours=1)  # what is longer ago is for builds
HOT_MS = 5_000  # a GPU that is hot for so long is no blip
PAUSE_MS = 90_000  # a series without a sample for so long begins anew
REPEAT_MS = 600_000  # while it is hot it is seen again, so that its incident stays open
_NVIDIA = ("dcgm", "nvidia_exporter")  # others measure hotter places of a board
_XIDS = written("dcgm")["last_xid"].names
_HEAT = tuple(name for source in _NVIDIA for name in written(source)["temperature_celsius"].names)
# Of each table, the rows that matter: any of these conditions, each with all of its parts.
ROWS: Mapping[str, list[list[tuple[str, str, Any]]] | None] = {
    EVENTS: None,
    SAMPLES: [[("metric", "in", _XIDS), ("value", ">", 0)], [("metric", "in", _HEAT), ("value", ">=", HOT_CELSIUS)]],
    JOBS: [[("State", "in", (*LOST, *FAILED))]],
    OBJECTS: [[("kind", "in", ("Event", "Node"))]],
}
Row = Mapping[str, Any]
Clusters = Callable[[str], str]  # of a node


class _Lasting(NamedTuple):
    value: float
    since_ms: int
    last_ms: int
    reported_ms: int | None


class Sudden:
    def __init__(self, reported: Iterable[str] = ()) -> None:
        """`reported` are nodes with a fault that is known: an exporter repeats its last Xid until it restarts."""
        self._reported = frozenset(reported)
        self._series: dict[tuple[str, str, str], _Lasting] = {}

    def find(self, table: str, rows: Sequence[Row], cluster_of: Clusters, now: datetime) -> list[Finding]:
        events = [event for row in rows for event in self._events(table, row, now)]
        serious = sorted((row for event in events if (row := _fault(event))), key=_ORDER)
        found = [
            fault_finding([{**fault, "cluster_id": cluster_of(node)} for fault in faults])
            for node, faults in groupby(serious, itemgetter("node_id"))
        ]
        others = {SAMPLES: self._heat, JOBS: _job, OBJECTS: _lost_node}.get(table)
        return found + [one for row in rows for one in (others(row, cluster_of, now) if others else ())]

    def _events(self, table: str, row: Row, now: datetime) -> Iterator[Row]:
        """As rows of bronze_node_events."""
        if table == EVENTS:
            yield row
        elif table == OBJECTS and row["fault_kind"] and row["node"]:
            names = {"node": "node", "kind": "fault_kind", "code": "fault_code", "subject": "fault_subject"}
            yield {**{name: row[column] for name, column in names.items()}, "ts_ms": _ms(row["last_at"], now)}
        elif table == SAMPLES and row["metric"] in _XIDS and (sample := _sample(row, now)):
            node, gpu, at_ms = sample
            before = self._series.get(("xid", node, gpu))
            self._series["xid", node, gpu] = _Lasting(row["value"], at_ms, at_ms, at_ms)
            is_same = before is not None and before.value == row["value"] and at_ms - before.last_ms <= PAUSE_MS
            if not is_same and (before is not None or node not in self._reported):
                yield {"node": node, "ts_ms": at_ms, "kind": "xid", "code": row["value"], "subject": gpu}

    def _heat(self, row: Row, cluster_of: Clusters, now: datetime) -> Iterator[Finding]:
        sample = _sample(row, now) if row["metric"] in _HEAT else None
        if sample is None:
            return
        node, gpu, at_ms = sample
        before = self._series.get(("heat", node, gpu))
        is_new = before is None or at_ms - before.last_ms > PAUSE_MS
        since, reported = (at_ms, None) if before is None or is_new else (before.since_ms, before.reported_ms)
        is_due = at_ms - since >= HOT_MS and (reported is None or at_ms - reported >= REPEAT_MS)
        self._series["heat", node, gpu] = _Lasting(row["value"], since, at_ms, at_ms if is_due else reported)
        if is_due:
            yield Finding(
                kind="hot_gpu",
                subject=f"{node} {gpu}",
                headline=f"{node} {gpu} is at {row['value']:.0f} °C",
                detail=f"{HOT_CELSIUS:.0f} °C or more since {_at(since):%Y-%m-%d %H:%M:%S} UTC",
                value=row["value"],
                unit="°C",
                remedy="see whether its clocks are held back; look at the fans, the inlet and its slot",
                cluster_id=cluster_of(node),
                node=node,
                began_at=_at(since),
                ended_at=_at(at_ms),
            )


_ORDER = itemgetter("node_id", "severity", "began_at", "kind")


def _sample(row: Row, now: datetime) -> tuple[str, str, int] | None:
    """Node, GPU and time, if it says them and is not of long ago."""
    labels = json.loads(row["labels"] or "{}")
    node = next((labels[name] for name in NODE_LABELS if labels.get(name)), "").partition(":")[0]
    gpu = str(labels.get("gpu") or labels.get("UUID") or labels.get("uuid") or "")
    at_ms = int(row["ts_ms"] or 0)
    if not node or not gpu or _at(at_ms) < now - OLDEST:
        return None
    return node, f"GPU {gpu}" if gpu[:1].isdigit() else gpu, at_ms


def _fault(event: Row) -> dict[str, Any] | None:
    """As a row of the query of detect/faults.py; None for what is not serious."""
    fault = kernel_faults().get(event["kind"])
    if fault is None:
        return None
    code = None if event["code"] is None else int(event["code"])
    known = fault.codes.get(code) if code is not None else None
    severity = known.severity if known else fault.severity
    if severity not in SERIOUS:
        return None
    at = _at(event["ts_ms"])
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


def _job(row: Row, cluster_of: Clusters, now: datetime) -> Iterator[Finding]:
    ended = row["asked_at"] or now
    if ended < now - OLDEST:
        return
    is_lost, who = row["State"] in LOST, f"job {row['JobID']}" + (f" of {row['User']}" if row["User"] else "")
    nodes = row["NodeList"] or ""
    yield Finding(
        kind="lost_job" if is_lost else "failed_job",
        subject=row["JobID"],
        headline=f"{who} ended as {row['State']}" + (f" on {nodes}" if nodes else ""),
        detail=f"exit code {row['ExitCode']}" if row["ExitCode"] else "",
        value=1.0,
        unit="jobs",
        remedy="look at its nodes, and start it again" if is_lost else "read its log: gpulake diagnose",
        cluster_id=row["Cluster"] or cluster_of(nodes),
        node=nodes if nodes and not {"[", ","} & set(nodes) else None,
        job_id=row["JobID"],
        began_at=ended,
        ended_at=ended,
    )


def _lost_node(row: Row, cluster_of: Clusters, now: datetime) -> Iterator[Finding]:
    is_event = row["kind"] == "Event"
    node = row["node"] if is_event else row["name"]
    is_lost = row["reason"] == "NodeNotReady" if is_event else row["state"] in ("False", "Unknown")
    at = (row["last_at"] if is_event else row["state_since"]) or now
    if not node or not is_lost or at < now - OLDEST:
        return
    yield Finding(
        kind="node_down",
        subject=node,
        headline=f"Kubernetes reports node {node} as not ready since {at:%Y-%m-%d %H:%M} UTC",
        detail=str(row["message"] or row["reason"] or ""),
        value=1.0,
        unit="nodes",
        remedy="look at its kubelet, power, network and the node's log",
        cluster_id=row["cluster"] or cluster_of(node),
        node=node,
        began_at=at,
        ended_at=at,
    )


def _at(ms: float) -> datetime:
    return datetime.fromtimestamp(ms / 1000, UTC)


def _ms(at: datetime | None, now: datetime) -> float:
    return (at or now).timestamp() * 1000
