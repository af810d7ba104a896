"""Serious events of nodes, such as Xid 79 or an uncorrected memory error: a finding at the first one.

What counts as serious is data: formats/kernel.toml. Other events are the business of the watch node_events.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from itertools import groupby
from operator import itemgetter
from typing import Any

from gpulake.core.types import Finding
from gpulake.detect.alarms import first_names
from gpulake.detect.series import EPOCH
from gpulake.detect.watches import Read
from gpulake.formats.kernel import KernelFault, kernel_faults

KIND = "node_fault"
MOST_FAULTS = 5
# Events of a node less than six hours apart are one episode. Text is sorted so that critical comes before warning.
# A job that ended as an episode began counts: it may have died of the fault.
FAULTS = """
WITH events AS (
    SELECT *, coalesce(happened_at > lag(happened_at) OVER of_node + INTERVAL 6 HOURS, false) AS is_apart
    FROM silver_node_events
    WHERE severity IN ('critical', 'warning')
    WINDOW of_node AS (PARTITION BY cluster_id, node_id ORDER BY happened_at)
),
episodes AS (
    SELECT *, count_if(is_apart) OVER (PARTITION BY cluster_id, node_id ORDER BY happened_at) AS episode
    FROM events
),
faults AS (
    SELECT
        cluster_id, node_id, episode, severity, kind, code, subject, min(happened_at) AS began_at,
        max(happened_at) AS ended_at, count(*) AS events
    FROM episodes
    GROUP BY ALL
),
begins AS (SELECT cluster_id, node_id, episode, min(began_at) AS began_at FROM faults GROUP BY ALL),
ran AS (
    SELECT
        begins.cluster_id, begins.node_id, begins.episode,
        list(DISTINCT jobs.job_id || coalesce(' of ' || jobs.user_id, '')).list_sort() AS jobs
    FROM begins
    INNER JOIN silver_nodes AS nodes ON begins.node_id = nodes.node_id
    INNER JOIN silver_holdings AS holdings
        ON
            nodes.machine_key = holdings.machine_key
            AND begins.began_at BETWEEN holdings.held_from AND holdings.held_until
    INNER JOIN silver_jobs AS jobs ON holdings.job_key = jobs.job_key
    GROUP BY ALL
)
SELECT faults.*, coalesce(ran.jobs, []) AS jobs
FROM faults
LEFT JOIN ran ON
    faults.cluster_id = ran.cluster_id AND faults.node_id = ran.node_id AND faults.episode = ran.episode
ORDER BY faults.cluster_id, faults.node_id, faults.episode, severity, began_at, kind, code, subject
"""
EPISODE = itemgetter("cluster_id", "node_id", "episode")


def node_faults(read: Read) -> list[Finding]:
    """The latest first among those of one severity, critical ones before all."""
    rows = read(FAULTS).to_pylist()
    findings = [fault_finding(list(faults)) for _, faults in groupby(rows, EPISODE)]
    return sorted(findings, key=lambda one: (one.severity, -(one.began_at or EPOCH).timestamp(), one.finding_id))


def fault_finding(faults: list[dict[str, Any]]) -> Finding:
    """Of one episode of a node: rows as FAULTS has them, the most serious first."""
    first = faults[0]
    node, began_at = first["node_id"], min(row["began_at"] for row in faults)
    key = "\0".join((KIND, first["cluster_id"], node, began_at.isoformat()))
    more = f" and {len(faults) - MOST_FAULTS} more" if len(faults) > MOST_FAULTS else ""
    counts = ", ".join(f"{_name(row)} ({row['events']:,}×)" for row in faults[:MOST_FAULTS])
    ran = f"held then by job {first_names(first['jobs'])}" if first["jobs"] else "no job is known to have held it then"
    return Finding(
        kind=KIND,
        subject=node,
        headline=f"node {node} reported {_name(first)} at {first['began_at']:%Y-%m-%d %H:%M} UTC",
        detail=f"{counts}{more}; {ran}",
        value=float(sum(row["events"] for row in faults)),
        unit="events",
        day=str(began_at.date()),
        finding_id="f-" + hashlib.sha256(key.encode()).hexdigest()[:16],
        severity=first["severity"],
        remedy=_remedy(first),
        cluster_id=first["cluster_id"],
        node=node,
        began_at=began_at,
        ended_at=max(row["ended_at"] for row in faults),
    )


def _fault(row: dict[str, Any]) -> KernelFault:
    return kernel_faults()[row["kind"]]


def _name(row: dict[str, Any]) -> str:
    return " ".join(_parts(row))


def _parts(row: dict[str, Any]) -> Iterator[str]:
    fault = _fault(row)
    if row["code"] is None:
        yield fault.words
    else:
        known = fault.codes.get(row["code"])
        yield f"{fault.title} {row['code']}" + (f" ({known.name})" if known else "")
    if row["subject"] not in (None, "", row["node_id"]):
        yield f"of {row['subject']}"


def _remedy(row: dict[str, Any]) -> str:
    known = _fault(row).codes.get(row["code"])
    return known.remedy if known else _fault(row).remedy
