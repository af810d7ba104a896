"""Watches that compare the GPUs of a node with each other, while they are busy: a metric a GPU."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from gpulake.core.packaged import queries
from gpulake.core.types import Finding
from gpulake.detect.alarms import Alarm, first_names, flagged_points, period
from gpulake.detect.detectors.straggler import FEWEST_PEERS, Straggler
from gpulake.detect.series import Scores, Series
from gpulake.detect.table_series import floats, grouped, integers
from gpulake.detect.watches import HOLDER, Read

SQL = queries("gpulake.detect", "queries.sql")


@dataclass(frozen=True)
class PeerWatch:
    """A GPU whose column of silver_gpu_samples differs from that of the other busy GPUs of its node."""

    detector: Straggler
    column: str
    unit: str
    kind: str
    headline: str  # filled in with name, value and rest, both in `shown_in`
    detail: str  # comes after the period
    remedy: str
    least_seconds: float
    least_difference: float = 0.0
    shown_in: float = 1.0
    tables: tuple[str, ...] = ("silver_gpu_samples",)

    def series(self, read: Read, subject: str | None = None) -> Iterator[Series]:
        edge = "most" if self.detector.side == "high" else "least"
        query = SQL["gpu_peers"].format(
            holder=HOLDER, column=self.column, edge=edge, apart=self.detector.least_difference, peers=FEWEST_PEERS
        )
        for (cluster, node, _, step_ms), rows in grouped(read(query), ["cluster_id", "node_id", "holder", "step_ms"]):
            if subject in (None, node):
                yield replace(pivoted(node, rows, int(step_ms)), unit=self.unit, cluster_id=cluster, node=node)

    def describe(self, series: Series, scores: Scores, alarm: Alarm) -> Finding | None:
        is_flagged = flagged_points(series, scores, alarm)
        place = series.metrics.index(alarm.carriers[0])
        seen = series.values[is_flagged, place]
        if np.isnan(seen).all():
            return None  # it is idle by now: only its trailing level is still apart
        value = float(np.nanmedian(seen))
        rest = float(np.median(scores.expected[is_flagged, place]))
        seconds = float(is_flagged.sum()) * series.interval_ms / 1000
        if abs(value - rest) < self.least_difference or seconds < self.least_seconds:
            return None
        gpus = first_names(alarm.carriers)
        name = f"{series.subject} GPU {gpus}" if gpus[:1].isdigit() else f"{series.subject} {gpus}"
        return Finding(
            kind=self.kind,
            subject=name,
            headline=self.headline.format(name=name, value=value / self.shown_in, rest=rest / self.shown_in),
            detail=f"{period(series, alarm)}{self.detail}",
            value=value,
            unit=self.unit,
            remedy=self.remedy,
        )


def pivoted(subject: str, rows: pa.Table, step_ms: int) -> Series:
    """From rows of at_ms, gpu and seen: a metric a GPU."""
    gpus = rows["gpu"].to_pylist()
    names = sorted(set(gpus), key=lambda name: (len(name), name))
    column = {name: place for place, name in enumerate(names)}
    times, where = np.unique(integers(rows, "at_ms"), return_inverse=True)
    values = np.full((len(times), len(names)), np.nan)
    values[where, [column[name] for name in gpus]] = floats(rows, "seen")
    return Series(subject, tuple(names), times, values, step_ms)
