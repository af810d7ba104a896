"""GPUs of a job that count as busy without memory traffic, far longer than ever: a hang that spins."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from gpulake.core.packaged import packaged_text
from gpulake.core.types import Finding
from gpulake.detect.alarms import Alarm, flagged_points, time_text
from gpulake.detect.detectors.flatline import Flatline
from gpulake.detect.peers import pivoted
from gpulake.detect.series import Detector, Scores, Series
from gpulake.detect.table_series import grouped
from gpulake.detect.watches import HOLDER, WATCHES, Read

STILL = 0.01
LEAST_SECONDS = 300.0
# Only jobs are read whose busy GPUs had times with and times without memory traffic.
POINTS = packaged_text("gpulake.detect.watches", "stuck_gpus.sql")
STEP_MS = 10_000
STANDS = Flatline()


@WATCHES.register("stuck_gpus")
@dataclass(frozen=True)
class StuckGpus:
    tables: tuple[str, ...] = ("silver_gpu_samples",)
    detector: Detector = STANDS

    def series(self, read: Read, subject: str | None = None) -> Iterator[Series]:
        rows = read(POINTS.format(holder=HOLDER, still=STILL, seconds=LEAST_SECONDS))
        for (cluster, node, job), here in grouped(rows, ["cluster_id", "node_id", "job_id"]):
            name = node if job is None else f"{job} on {node}"
            if subject in (None, name):
                yield replace(pivoted(name, here, STEP_MS), unit="ratio", cluster_id=cluster, node=node, job_id=job)

    def describe(self, series: Series, scores: Scores, alarm: Alarm) -> Finding | None:
        is_flagged = flagged_points(series, scores, alarm)
        places = [series.metrics.index(name) for name in alarm.carriers]
        level = float(np.nanmedian(series.values[is_flagged][:, places]))
        if not level <= STILL or (alarm.end_ms - alarm.begin_ms) / 1000 < LEAST_SECONDS / 2:
            return None
        return Finding(
            kind="stuck_gpus",
            subject=series.subject,
            headline=(
                f"{len(places)} GPUs of {series.subject} count as busy and move no memory "
                f"since before {time_text(alarm.begin_ms)}: it looks like a hang"
            ),
            detail=f"memory traffic {level:.1%} while busy; it was never constant for a third as long before",
            value=level,
            unit="ratio",
            remedy="find the rank that does not come (gpulake diagnose), and end the job",
        )
