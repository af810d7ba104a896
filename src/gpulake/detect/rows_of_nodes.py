"""Watches of whole nodes, by hour, against an absolute limit: nodes that go over it together are one series."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from gpulake.core.packaged import queries
from gpulake.detect.alarms import first_names
from gpulake.detect.detectors.limit import Limit
from gpulake.detect.peers import pivoted
from gpulake.detect.series import HOUR_MS, Series
from gpulake.detect.table_series import grouped
from gpulake.detect.watches import Read

SQL = queries("gpulake.detect", "queries.sql")


def rows_of_nodes(read: Read, hours: str, limit: Limit, unit: str, subject: str | None = None) -> Iterator[Series]:
    """A metric a node; the subject ends in the reason. `hours`: a query of cluster_id, node_id, at_ms, reason, seen."""
    rows = read(SQL["rows_of_nodes"].format(hours=hours, limit=limit.limit, points=limit.points))
    for (cluster, reason, _), here in grouped(rows, ["cluster_id", "reason", "row_number"]):
        series = pivoted("", here, HOUR_MS)
        name = f"{first_names(series.metrics)}: {reason}"
        if subject in (None, name):
            node = series.metrics[0] if len(series.metrics) == 1 else None
            yield replace(series, subject=name, unit=unit, cluster_id=cluster, node=node)


def names_and_reason(series: Series) -> tuple[str, str, str]:
    """The subject of a finding, how a sentence names the nodes, and the reason."""
    names, _, reason = series.subject.rpartition(": ")
    count = len(series.metrics)
    return names, f"node {names}" if count == 1 else f"{count} nodes ({names})", reason
