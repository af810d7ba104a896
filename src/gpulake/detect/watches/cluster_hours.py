"""Hours of a cluster that are unlike the same hours of other days: its GPUs did far more, or far less, than usual."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from gpulake.core.types import Finding
from gpulake.detect.alarms import Alarm
from gpulake.detect.detectors.seasonal import Seasonal
from gpulake.detect.series import Detector, Scores
from gpulake.detect.tabled import HOUR_MS, grouped, numbers, series_of
from gpulake.detect.telling import moment, peak
from gpulake.detect.watches import WATCHES, Read, Watched

POOR_COVERAGE = 0.5  # of the median hour's: such hours are left out
LEAST_HOURS, LONG_HOURS = 3, 6
HOURS = """
SELECT
    cluster_id,
    epoch_ms(started_at) AS at_ms,
    CASE WHEN coverage_ratio >= {poor} * median(coverage_ratio) OVER (PARTITION BY cluster_id) THEN gpu_util_ratio END
        AS gpu_util_ratio
FROM gold_cluster_util_hourly
ORDER BY cluster_id, at_ms
"""

SEASONS = Seasonal(alarms_a_day=0.02, least_points=7 * 24, least_deviations=6.0)


@WATCHES.register("cluster_hours")
@dataclass(frozen=True)
class ClusterHours:
    tables: tuple[str, ...] = ("gold_cluster_util_hourly",)
    detector: Detector = SEASONS

    def watched(self, read: Read, subject: str | None = None) -> Iterator[Watched]:
        for (cluster,), rows in grouped(read(HOURS.format(poor=POOR_COVERAGE)), ["cluster_id"]):
            if subject in (None, cluster) and not np.isnan(numbers(rows, "gpu_util_ratio")).all():
                yield Watched(series_of(cluster, rows, ["gpu_util_ratio"], HOUR_MS), "ratio", cluster)

    def told(self, watched: Watched, scores: Scores, alarm: Alarm) -> Finding | None:
        seen = peak(watched.series, scores, alarm)
        # One hour is the chance of a few jobs.
        if seen.flagged < LEAST_HOURS:
            return None
        cluster = watched.series.subject
        return Finding(
            kind="unusual_utilisation",
            subject=cluster,
            headline=(
                f"GPUs of {cluster} were {seen.value:.0%} busy at {moment(alarm.peak_ms)}, "
                f"far {seen.side} the usual {seen.expected:.0%} of that hour"
            ),
            detail=f"{seen.flagged} hours from {moment(alarm.begin_ms)} on were unlike the same hours of other days",
            value=seen.value,
            unit="ratio",
            severity="warning" if seen.flagged >= LONG_HOURS else "info",
            remedy=REMEDY,
        )


REMEDY = "see who held the GPUs then: gpulake report efficiency; and whether jobs failed or waited"
