"""Xid errors, lost links and kills for memory that come far faster on a node than they used to."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from gpulake.core.types import Finding
from gpulake.detect.alarms import Alarm
from gpulake.detect.detectors.burst import Burst
from gpulake.detect.series import Detector, Scores, Series
from gpulake.detect.tabled import grouped, numbers, whole
from gpulake.detect.telling import moment
from gpulake.detect.watches import WATCHES, Read, Watched

STEP_MS = 600_000
LEAST_EVENTS = 3
WORDS = {"xid": "Xid errors", "sxid": "NVSwitch errors", "oom_kill": "kills for memory", "link_down": "lost links"}
EVENTS = """
WITH events AS (
    SELECT cluster_id, node_id, kind, epoch_ms(happened_at) // 600000 * 600000 AS at_ms
    FROM silver_node_events
    WHERE kind IN ('xid', 'sxid', 'oom_kill', 'link_down') AND happened_at IS NOT NULL
)
SELECT cluster_id, node_id, at_ms, kind, count(*) AS events, min(min(at_ms)) OVER (PARTITION BY cluster_id) AS begin_ms
FROM events
GROUP BY cluster_id, node_id, at_ms, kind
ORDER BY cluster_id, node_id, at_ms, kind
"""
FASTER = Burst(window_points=6)


@WATCHES.register("node_events")
@dataclass(frozen=True)
class NodeEvents:
    tables: tuple[str, ...] = ("silver_node_events",)
    detector: Detector = FASTER

    def watched(self, read: Read, subject: str | None = None) -> Iterator[Watched]:
        for (cluster, node), rows in grouped(read(EVENTS), ["cluster_id", "node_id"]):
            if subject in (None, node):
                yield Watched(_counters(node, rows), "events", cluster, node)

    def told(self, watched: Watched, scores: Scores, alarm: Alarm) -> Finding | None:
        series = watched.series
        first, last = np.searchsorted(series.times_ms, [alarm.begin_ms, alarm.end_ms]).tolist()
        grown = series.values[last] - series.values[max(0, first - FASTER.window_points)]
        events = {name: int(count) for name, count in zip(series.metrics, grown.tolist(), strict=True) if count > 0}
        if not scores.is_flagged[first] or sum(events.values()) < LEAST_EVENTS:
            return None
        most = max(events, key=lambda name: events[name])
        return Finding(
            kind="node_errors",
            subject=series.subject,
            headline=(
                f"node {series.subject} had {events[most]:,} {WORDS[most]} around {moment(alarm.begin_ms)}, "
                "far more than it used to"
            ),
            detail=", ".join(f"{WORDS[name]}: {count:,}" for name, count in events.items()),
            value=float(events[most]),
            unit="events",
            severity="warning",
            remedy="read the kernel's log of the node (gpulake sql 'from silver_node_events'), and drain it",
        )


def _counters(node: str, rows: pa.Table) -> Series:
    """Every ten minutes since the cluster's first event, a counter a kind."""
    kinds = rows["kind"].to_pylist()
    names = sorted(set(kinds))
    begin = int(whole(rows, "begin_ms")[0])
    places = (whole(rows, "at_ms") - begin) // STEP_MS
    values = np.zeros((int(places[-1]) + 1, len(names)))
    values[places, [names.index(kind) for kind in kinds]] = numbers(rows, "events")
    times = begin + np.arange(len(values), dtype=np.int64) * STEP_MS
    return Series(node, tuple(names), times, np.cumsum(values, axis=0), STEP_MS)
