"""Far more work waits for GPUs than in the same hours of other days."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from gpulake.core.types import Finding
from gpulake.detect.alarms import Alarm, peak_of, time_text
from gpulake.detect.detectors.seasonal import Seasonal
from gpulake.detect.series import HOUR_MS, Detector, Scores, Series
from gpulake.detect.table_series import series_by
from gpulake.detect.watches import WATCHES, Read

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

    def series(self, read: Read, subject: str | None = None) -> Iterator[Series]:
        return series_by(read(HOURS), ["cluster_id"], ["waiting_ratio"], HOUR_MS, "ratio", subject)

    def describe(self, series: Series, scores: Scores, alarm: Alarm) -> Finding | None:
        seen = peak_of(series, scores, alarm)
        # A short queue is no finding.
        if seen.value < max(LEAST_RATIO, seen.expected) or seen.flagged < LEAST_HOURS:
            return None
        return Finding(
            kind="long_queue",
            subject=series.subject,
            headline=(
                f"work for {seen.value:.0%} of the GPUs of {series.subject} waited at {time_text(alarm.peak_ms)}, "
                f"where {seen.expected:.0%} is usual at that hour"
            ),
            detail=f"{seen.flagged} hours from {time_text(alarm.begin_ms)} on",
            value=seen.value,
            unit="ratio",
            severity="warning" if seen.flagged >= LONG_HOURS else "info",
            remedy="see whether machines are down or one user fills the queue: gpulake report efficiency",
        )
