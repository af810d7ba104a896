"""Events of a node that are no fault one by one (OOM kills, lost links) but come far faster than they used to."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from gpulake.core.types import Finding
from gpulake.detect.alarms import Alarm, places_of, time_text
from gpulake.detect.detectors.burst import Burst
from gpulake.detect.series import Detector, Scores, Series
from gpulake.detect.table_series import floats, grouped, integers
from gpulake.detect.watches import WATCHES, Read
from gpulake.formats.kernel import kernel_faults

STEP_MS = 600_000
LEAST_EVENTS = 3
WORDS = {kind: fault.words for kind, fault in kernel_faults().items() if fault.words}
# Serious ones are reported at the first event: detect/faults.py.
EVENTS = """
WITH events AS (
    SELECT cluster_id, node_id, kind, epoch_ms(happened_at) // 600000 * 600000 AS at_ms
    FROM silver_node_events
    WHERE
        severity = 'info' AND happened_at IS NOT NULL
        AND kind NOT IN ('link_up', 'gpu_back', 'clock_step', 'dropped', 'skipped')
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

    def series(self, read: Read, subject: str | None = None) -> Iterator[Series]:
        for (cluster, node), rows in grouped(read(EVENTS), ["cluster_id", "node_id"]):
            if subject in (None, node):
                yield _counters(cluster, node, rows)

    def describe(self, series: Series, scores: Scores, alarm: Alarm) -> Finding | None:
        first, last = places_of(series, alarm)
        grown = series.values[last] - series.values[max(0, first - FASTER.window_points)]
        events = {name: int(count) for name, count in zip(series.metrics, grown.tolist(), strict=True) if count > 0}
        if not scores.is_flagged[first] or sum(events.values()) < LEAST_EVENTS:
            return None
        most = max(events, key=lambda name: events[name])
        return Finding(
            kind="node_errors",
            subject=series.subject,
            headline=(
                f"node {series.subject} had {events[most]:,} {WORDS.get(most, most)} "
                f"around {time_text(alarm.begin_ms)}, far more than it used to"
            ),
            detail=", ".join(f"{WORDS.get(name, name)}: {count:,}" for name, count in events.items()),
            value=float(events[most]),
            unit="events",
            remedy="read the kernel's log of the node (gpulake sql 'from silver_node_events'), and drain it",
        )


def _counters(cluster: str, node: str, rows: pa.Table) -> Series:
    """Every ten minutes since the cluster's first event, a counter a kind."""
    kinds = rows["kind"].to_pylist()
    names = sorted(set(kinds))
    begin = int(integers(rows, "begin_ms")[0])
    places = (integers(rows, "at_ms") - begin) // STEP_MS
    values = np.zeros((int(places[-1]) + 1, len(names)))
    values[places, [names.index(kind) for kind in kinds]] = floats(rows, "events")
    times = begin + np.arange(len(values), dtype=np.int64) * STEP_MS
    return Series(node, tuple(names), times, np.cumsum(values, axis=0), STEP_MS, "events", cluster, node)
