"""Work that waits for GPUs, far more of it than at such hours of other days."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from gpulake.core.types import Finding
from gpulake.detect.alarms import Alarm
from gpulake.detect.detectors.seasonal import Seasonal
from gpulake.detect.series import Detector, Scores
from gpulake.detect.tabled import HOUR_MS, grouped, series_of
from gpulake.detect.telling import moment, peak
from gpulake.detect.watches import WATCHES, Read, Watched

LEAST_RATIO = 0.05  # of the GPUs that there are
LEAST_HOURS, LONG_HOURS = 3, 6
HOURS = """
SELECT
    cluster_id,
    epoch_ms(started_at) AS at_ms,
    sum(waiting_gpu_hours) / nullif(sum(available_gpu_hours), 0) AS waiting_ratio
FROM gold_demand_hourly
GROUP BY cluster_id, started_at
ORDER BY cluster_id, at_ms
"""
SEASONS = Seasonal(alarms_a_day=0.02, least_points=7 * 24, least_deviations=8.0)


@WATCHES.register("queue")
@dataclass(frozen=True)
class Queue:
    tables: tuple[str, ...] = ("gold_demand_hourly",)
    detector: Detector = SEASONS

    def watched(self, read: Read, subject: str | None = None) -> Iterator[Watched]:
        for (cluster,), rows in grouped(read(HOURS), ["cluster_id"]):
            if subject in (None, cluster):
                yield Watched(series_of(cluster, rows, ["waiting_ratio"], HOUR_MS), "ratio", cluster)

    def told(self, watched: Watched, scores: Scores, alarm: Alarm) -> Finding | None:
        seen = peak(watched.series, scores, alarm)
        # An empty queue troubles nobody.
        if seen.value < max(LEAST_RATIO, seen.expected) or seen.flagged < LEAST_HOURS:
            return None
        cluster = watched.series.subject
        return Finding(
            kind="long_queue",
            subject=cluster,
            headline=(
                f"work for {seen.value:.0%} of the GPUs of {cluster} waited at {moment(alarm.peak_ms)}, "
                f"where {seen.expected:.0%} is usual at that hour"
            ),
            detail=f"{seen.flagged} hours from {moment(alarm.begin_ms)} on",
            value=seen.value,
            unit="ratio",
            severity="warning" if seen.flagged >= LONG_HOURS else "info",
            remedy="see whether machines are down or one user fills the queue: gpulake report efficiency",
        )
