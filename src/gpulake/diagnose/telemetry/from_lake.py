"""Telemetry from the lake: what it has of the nodes of a run, in the minutes of that run.

The nodes are those that the log names, else the machines that the job tables say the job ran on. Finding nothing is no
error: most logs come from machines that are not monitored.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from gpulake.core.diagnosis import Diagnosis
from gpulake.core.packaged import queries
from gpulake.diagnose.story.events import Story
from gpulake.diagnose.telemetry.samples import (
    MOST_SAMPLES,
    Gathering,
    GpuSample,
    HostSample,
    NodeEvent,
    Samples,
    Window,
)
from gpulake.diagnose.telemetry.scene import short

if TYPE_CHECKING:
    from gpulake.lake import LakeReader

ROWS = 16_384
JOB_TABLES = {"silver_holdings", "silver_jobs", "silver_nodes"}
SQL = queries("gpulake.diagnose", "queries.sql")
# By table: the column of its time, what a row becomes, and what takes it.
SOURCES: dict[str, tuple[str, Callable[..., Any], Callable[[Gathering, Any], None]]] = {
    "silver_gpu_samples": ("sampled_at", GpuSample, Gathering.add_gpu),
    "silver_host_samples": ("sampled_at", HostSample, Gathering.add_host),
    "silver_node_events": ("happened_at", NodeEvent, Gathering.add_event),
}


def samples_from_lake(reader: LakeReader, diagnosis: Diagnosis, story: Story, window: Window) -> Samples:
    """Without a time or a node there is nothing to look for."""
    if window.since is None or window.until is None:
        return Samples()
    tables = reader.tables()
    return _gathered(reader, tables, _nodes(reader, tables, diagnosis, story, window), Gathering(window))


def samples_of_job(
    reader: LakeReader, job_id: str, cluster_id: str | None, window: Window, most_samples: int = MOST_SAMPLES
) -> Samples:
    """Of all nodes that the job ran on, while it ran, as far as that lies in the window."""
    tables = reader.tables()
    if not tables >= JOB_TABLES:
        return Samples()
    (ran,) = reader.query(SQL["span_of_job"], job_id=job_id, cluster_id=cluster_id).to_pylist()
    if ran["since"] is None or ran["until"] is None:
        return Samples()
    since = ran["since"] if window.since is None else max(ran["since"], window.since)
    until = ran["until"] if window.until is None else min(ran["until"], window.until)
    ran_in = Window(since, until)
    return _gathered(reader, tables, _nodes_of_job(reader, job_id, cluster_id, ran_in), Gathering(ran_in, most_samples))


def _gathered(reader: LakeReader, tables: set[str], nodes: list[str], gathering: Gathering) -> Samples:
    asked = {"nodes": json.dumps(nodes), "since": gathering.window.since, "until": gathering.window.until}
    for table, (at, kind, add) in SOURCES.items():
        query = SQL[table] + SQL["of_nodes"].format(at=at)
        for batch in reader.stream(query, ROWS, **asked) if nodes and table in tables else ():
            for row in batch.to_pylist():
                if gathering.counts(row["at_seconds"]):
                    add(gathering, kind(**row))
    return gathering.finished()


def _nodes(reader: LakeReader, tables: set[str], diagnosis: Diagnosis, story: Story, window: Window) -> list[str]:
    named = [*story.hosts, *([diagnosis.node] if diagnosis.node else [])]
    shortened = sorted(set(map(short, named)))
    job_id = diagnosis.job_id or story.job_id
    if "silver_nodes" in tables and shortened:
        known = {short(str(row["node_id"])) for row in reader.query(SQL["nodes"]).to_pylist()}
        if found := [name for name in shortened if name in known]:
            return found
    if not tables >= JOB_TABLES or job_id is None:
        return []
    return _nodes_of_job(reader, job_id, diagnosis.cluster_id, window)


def _nodes_of_job(reader: LakeReader, job_id: str, cluster_id: str | None, window: Window) -> list[str]:
    span: dict[str, Any] = {"since": window.since, "until": window.until}
    rows = reader.query(SQL["nodes_of_job"], job_id=job_id, cluster_id=cluster_id, **span).to_pylist()
    return sorted({short(str(row["node_id"])) for row in rows})
