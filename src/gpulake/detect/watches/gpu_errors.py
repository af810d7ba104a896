"""Errors of a GPU that come far faster than they used to: memory, PCIe, NVLink."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from gpulake.core.packaged import packaged_text
from gpulake.core.types import Finding
from gpulake.detect.alarms import Alarm, flagged_points, time_text
from gpulake.detect.detectors.burst import Burst
from gpulake.detect.series import Detector, Floats, Scores, Series
from gpulake.detect.table_series import grouped, series_of
from gpulake.detect.watches import WATCHES, Read

MINUTE_MS = 60_000
LEAST_ERRORS = 10.0
SERIOUS = "ecc_uncorrected_total"
COUNTERS = ("ecc_corrected_total", SERIOUS, "pcie_replays_total", "nvlink_errors_total")
WORDS = {
    "ecc_corrected_total": "corrected memory errors",
    SERIOUS: "memory errors that could not be corrected",
    "pcie_replays_total": "PCIe packets sent again",
    "nvlink_errors_total": "NVLink errors",
}
# Only GPUs with a counter that ever moved are read.
MINUTES = packaged_text("gpulake.detect.watches", "gpu_errors.sql")
FASTER = Burst()


@WATCHES.register("gpu_errors")
@dataclass(frozen=True)
class GpuErrors:
    tables: tuple[str, ...] = ("silver_gpu_samples",)
    detector: Detector = FASTER

    def series(self, read: Read, subject: str | None = None) -> Iterator[Series]:
        for (cluster, node, _), rows in grouped(read(MINUTES), ["cluster_id", "node_id", "gpu_id"]):
            name = rows["subject"][0].as_py()
            if subject in (None, name):
                yield series_of(name, rows, COUNTERS, MINUTE_MS, "errors", cluster, node)

    def describe(self, series: Series, scores: Scores, alarm: Alarm) -> Finding | None:
        first, *_, last = np.flatnonzero(flagged_points(series, scores, alarm)).tolist() * 2
        # The detector's window reaches back before the first flagged point.
        window = series.values[max(0, first - FASTER.window_points) : last + 1]
        grown = {name: _grown(window[:, place]) for place, name in enumerate(series.metrics) if name in alarm.carriers}
        is_serious = grown.get(SERIOUS, 0.0) > 0
        if not is_serious and sum(grown.values()) < LEAST_ERRORS:
            return None
        most = max(grown, key=lambda name: (name == SERIOUS and is_serious, grown[name]))
        return Finding(
            kind="gpu_errors",
            subject=series.subject,
            headline=(
                f"{series.subject} had {grown[most]:,.0f} {WORDS[most]} from {time_text(alarm.begin_ms)} "
                f"to {time_text(alarm.end_ms)}, far more than it used to"
            ),
            detail=", ".join(f"{WORDS[name]}: {count:,.0f}" for name, count in grown.items() if count > 0),
            value=grown[most],
            unit="errors",
            severity="critical" if is_serious else "warning",
            remedy="drain the node and reset the GPU; if errors come back, have the board replaced",
        )


def _grown(counter: Floats) -> float:
    """A counter that fell was reset to 0."""
    known = counter[~np.isnan(counter)]
    steps = np.diff(known)
    return float(np.where(steps < 0, known[1:], steps).sum())
