"""Telemetry from the lake: what it has of the nodes of a run, in the minutes of that run.

The nodes are those that the log names, else the machines that the job tables say the job ran on. Finding nothing is no
error: most logs come from machines that are not monitored.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from gpulake.core.diagnosis import Diagnosis
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
# A log may say the short name of a node and the sampler its whole one, or the other way round: both are made short.
KNOWN = "SELECT DISTINCT node_id FROM silver_nodes"
OF_JOB = """
SELECT DISTINCT nodes.node_id
FROM silver_jobs AS jobs
INNER JOIN silver_holdings AS holdings ON jobs.job_key = holdings.job_key
INNER JOIN silver_nodes AS nodes ON holdings.machine_key = nodes.machine_key
WHERE
    jobs.job_id = getvariable('job_id')
    AND (getvariable('cluster_id') IS NULL OR jobs.cluster_id = getvariable('cluster_id'))
    AND epoch(holdings.held_from) <= getvariable('until') AND epoch(holdings.held_until) >= getvariable('since')
"""
SPAN_OF_JOB = """
SELECT epoch(min(holdings.held_from)) AS since, epoch(max(holdings.held_until)) AS until
FROM silver_jobs AS jobs
INNER JOIN silver_holdings AS holdings ON jobs.job_key = holdings.job_key
WHERE
    jobs.job_id = getvariable('job_id')
    AND (getvariable('cluster_id') IS NULL OR jobs.cluster_id = getvariable('cluster_id'))
"""
OF_NODES = """
WHERE
    epoch({at}) BETWEEN getvariable('since') AND getvariable('until')
    AND list_contains(from_json(getvariable('nodes')::JSON, '["VARCHAR"]'), lower(split_part(node_id, '.', 1)))
ORDER BY {at}
"""
GPUS = """
SELECT
    epoch(sampled_at) AS at_seconds, node_id AS node, gpu_id AS gpu, busy_ratio, memory_used_bytes, memory_total_bytes,
    power_watts, temperature_celsius, slowdown_temperature_celsius, ecc_uncorrected_total AS ecc_uncorrected, last_xid,
    clock_event_reasons
FROM silver_gpu_samples
""" + OF_NODES.format(at="sampled_at")
HOSTS = """
SELECT
    epoch(sampled_at) AS at_seconds, node_id AS node, memory_available_bytes, memory_free_bytes, memory_total_bytes,
    cpu_busy_ratio, oom_kills_total AS oom_kills
FROM silver_host_samples
""" + OF_NODES.format(at="sampled_at")
EVENTS = """
SELECT epoch(happened_at) AS at_seconds, node_id AS node, kind, coalesce(subject, '') AS subject, code, pid,
    coalesce(message, '') AS message
FROM silver_node_events
""" + OF_NODES.format(at="happened_at")


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
    (ran,) = reader.query(SPAN_OF_JOB, job_id=job_id, cluster_id=cluster_id).to_pylist()
    if ran["since"] is None or ran["until"] is None:
        return Samples()
    since = ran["since"] if window.since is None else max(ran["since"], window.since)
    until = ran["until"] if window.until is None else min(ran["until"], window.until)
    ran_in = Window(since, until)
    return _gathered(reader, tables, _nodes_of_job(reader, job_id, cluster_id, ran_in), Gathering(ran_in, most_samples))


def _gathered(reader: LakeReader, tables: set[str], nodes: list[str], gathering: Gathering) -> Samples:
    asked = {"nodes": json.dumps(nodes), "since": gathering.window.since, "until": gathering.window.until}
    for table, (query, kind, add) in SOURCES.items():
        for batch in reader.stream(query, ROWS, **asked) if nodes and table in tables else ():
            for row in batch.to_pylist():
                if gathering.counts(row["at_seconds"]):
                    add(gathering, kind(**row))
    return gathering.finished()


SOURCES: dict[str, tuple[str, Callable[..., Any], Callable[[Gathering, Any], None]]] = {
    "silver_gpu_samples": (GPUS, GpuSample, Gathering.add_gpu),
    "silver_host_samples": (HOSTS, HostSample, Gathering.add_host),
    "silver_node_events": (EVENTS, NodeEvent, Gathering.add_event),
}


def _nodes(reader: LakeReader, tables: set[str], diagnosis: Diagnosis, story: Story, window: Window) -> list[str]:
    named = [*story.hosts, *([diagnosis.node] if diagnosis.node else [])]
    shortened = sorted(set(map(short, named)))
    job_id = diagnosis.job_id or story.job_id
    if "silver_nodes" in tables and shortened:
        known = {short(str(row["node_id"])) for row in reader.query(KNOWN).to_pylist()}
        if found := [name for name in shortened if name in known]:
            return found
    if not tables >= JOB_TABLES or job_id is None:
        return []
    return _nodes_of_job(reader, job_id, diagnosis.cluster_id, window)


def _nodes_of_job(reader: LakeReader, job_id: str, cluster_id: str | None, window: Window) -> list[str]:
    span: dict[str, Any] = {"since": window.since, "until": window.until}
    rows = reader.query(OF_JOB, job_id=job_id, cluster_id=cluster_id, **span).to_pylist()
    return sorted({short(str(row["node_id"])) for row in rows})
