"""GPUs of a node beside each other: a metric a GPU, while they work."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from gpulake.detect.alarms import Alarm
from gpulake.detect.detectors.straggler import FEWEST_PEERS, Straggler
from gpulake.detect.series import Scores, Series
from gpulake.detect.tabled import grouped, numbers, whole
from gpulake.detect.telling import flagged, named
from gpulake.detect.watches import Read, Watched

SAMPLES = "silver_gpu_samples"
# GPUs that rest are not held against GPUs that work. Only nodes are read of which, in some hour, one GPU was apart from
# the middle of the others by so much; the longer a node was watched, the wider are its points.
BESIDE = """
WITH samples AS (
    SELECT
        cluster_id,
        node_id,
        coalesce(CAST(gpu_index AS VARCHAR), gpu_id) AS gpu,
        sampled_at,
        covers_seconds,
        {column} AS seen
    FROM silver_gpu_samples
    WHERE parent_gpu_id IS NULL AND {column} IS NOT NULL AND coalesce(busy_ratio, 1) >= 0.5
),
hours AS (
    SELECT cluster_id, node_id, gpu, date_trunc('hour', sampled_at) AS hour, avg(seen) AS seen, sum(covers_seconds) AS s
    FROM samples
    GROUP BY ALL
),
nodes AS (
    SELECT cluster_id, node_id, hour, max(seen) AS most, min(seen) AS least, median(seen) AS middle, max(s) AS seconds
    FROM hours
    GROUP BY ALL
    HAVING count(*) >= {peers}
),
strange AS (
    SELECT
        cluster_id,
        node_id,
        CASE WHEN sum(seconds) < 3600 THEN 2000 WHEN sum(seconds) < 86400 THEN 10000 ELSE 60000 END AS step_ms
    FROM nodes
    GROUP BY cluster_id, node_id
    HAVING count(*) FILTER (abs({edge} - middle) >= {apart} * abs(middle)) > 0
)
SELECT
    samples.cluster_id,
    samples.node_id,
    strange.step_ms,
    epoch_ms(samples.sampled_at) // strange.step_ms * strange.step_ms AS at_ms,
    samples.gpu,
    avg(samples.seen) AS seen
FROM samples
INNER JOIN strange ON samples.cluster_id = strange.cluster_id AND samples.node_id = strange.node_id
GROUP BY ALL
ORDER BY samples.cluster_id, samples.node_id, at_ms, samples.gpu
"""


def beside_each_other(
    read: Read, column: str, unit: str, detector: Straggler, subject: str | None = None
) -> Iterator[Watched]:
    """Of each node with enough GPUs, or of one, a series of a column of the samples, where the detector may see any."""
    edge = "most" if detector.side == "high" else "least"
    rows = read(BESIDE.format(column=column, edge=edge, apart=detector.least_difference, peers=FEWEST_PEERS))
    for (cluster, node, step_ms), here in grouped(rows, ["cluster_id", "node_id", "step_ms"]):
        if subject in (None, node):
            yield Watched(pivoted(node, here, int(step_ms)), unit, cluster, node)


def pivoted(subject: str, rows: pa.Table, step_ms: int) -> Series:
    """Rows of at_ms, gpu and seen: a metric a GPU."""
    gpus = rows["gpu"].to_pylist()
    names = sorted(set(gpus), key=lambda name: (len(name), name))
    column = {name: place for place, name in enumerate(names)}
    times, where = np.unique(whole(rows, "at_ms"), return_inverse=True)
    values = np.full((len(times), len(names)), np.nan)
    values[where, [column[name] for name in gpus]] = numbers(rows, "seen")
    return Series(subject, tuple(names), times, values, step_ms)


@dataclass(frozen=True)
class Apart:
    """Which GPUs were apart from the rest, and by how much, in the middle of their alarm."""

    gpus: tuple[str, ...]
    value: float  # of the one that carries the most
    rest: float
    seconds: float

    def named(self, node: str) -> str:
        names = named(self.gpus)
        return f"{node} GPU {names}" if names[:1].isdigit() else f"{node} {names}"


def apart(watched: Watched, scores: Scores, alarm: Alarm) -> Apart:
    series, is_flagged = watched.series, flagged(watched.series, scores, alarm)
    place = series.metrics.index(alarm.carriers[0])
    value, rest = (
        float(np.nanmedian(series.values[is_flagged, place])),
        float(np.median(scores.expected[is_flagged, place])),
    )
    return Apart(alarm.carriers, value, rest, float(is_flagged.sum()) * series.interval_ms / 1000)
