"""Incidents of what a stream has just landed, and their alerts, that wait for no build.

They are incidents like those of builds: a build that finds the same adds to them.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from functools import cache, cached_property
from typing import TYPE_CHECKING

from gpulake.core.errors import GpulakeError
from gpulake.core.rows import as_row
from gpulake.core.types import Finding, Landing

if TYPE_CHECKING:
    from gpulake.detect.sudden import Clusters, Sudden
    from gpulake.flow import Flow
    from gpulake.lake.streams import Streams

CLUSTERS = "SELECT node_id, min(cluster_id) AS cluster_id FROM silver_nodes GROUP BY node_id"
MOST = 200  # incidents of one batch: a source that reports nonsense must not hold up what lands
NEVER = datetime.min.replace(tzinfo=UTC)


class Urgent:
    def __init__(self, flow: Flow, streams: Streams) -> None:
        self._flow, self._streams = flow, streams

    def see(self, landings: Sequence[Landing]) -> str:
        """The rows have landed: whatever fails here, which it says, is left to the next build."""
        try:
            if found := self._found(landings):
                self._open(sorted(found, key=lambda one: one.severity != "critical")[:MOST])
        except GpulakeError as error:
            return f"incidents are left to the next build: {error.message}"
        return f"{len(found):,} findings at once: only {MOST} became incidents" if len(found) > MOST else ""

    def _found(self, landings: Sequence[Landing]) -> list[Finding]:
        from gpulake.detect.sudden import ROWS

        found: list[Finding] = []
        cluster_of, now = self._cluster_of(), self._flow.clock.now()
        for one in landings:
            rows = self._streams.rows(one, ROWS[one.table]) if one.table in ROWS and one.rows_landed else []
            found += self._sudden.find(one.table, rows, cluster_of, now)
        return found

    @cached_property
    def _sudden(self) -> Sudden:
        from gpulake.detect.sudden import Sudden

        standing = [history[-1] for history in self._flow.lake.incidents.histories().values()]
        return Sudden(one.subject for one in standing if one.kind == "node_fault" and one.state != "resolved")

    def _open(self, found: Sequence[Finding]) -> None:
        from gpulake.act.incidents.findings import sightings
        from gpulake.act.incidents.grouping import group
        from gpulake.flow.alerting import queue_alerts

        flow, now = self._flow, self._flow.clock.now()
        settings = flow.config.incidents
        with flow.lake.incidents.changing() as incidents:
            seen = sightings(map(as_row, found), settings, lambda _: now)
            incidents.append(group(incidents.histories, seen, lambda _: NEVER, settings, now))
        queue_alerts(flow.lake, flow.clock)
        if flow.sends_alerts_at_once:
            flow.send_alerts_if_free()

    def _cluster_of(self) -> Clusters:
        """As the last build has it, which is read where a node is asked for."""

        @cache
        def clusters() -> dict[str, str]:
            try:
                with self._flow.lake.reading() as reader:
                    rows = reader.query(CLUSTERS).to_pylist() if "silver_nodes" in reader.tables() else []
            except GpulakeError:
                return {}  # a build that cannot be read is for the next one to replace
            return {row["node_id"]: row["cluster_id"] for row in rows}

        return lambda node: clusters().get(node, self._flow.config.telemetry_cluster)
