"""Hours in which the GPUs of a cluster did far more, or far less, than in the same hours of other days."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from gpulake.core.types import Finding
from gpulake.detect.alarms import Alarm, peak_of, time_text
from gpulake.detect.detectors.seasonal import Seasonal
from gpulake.detect.series import HOUR_MS, Detector, Scores, Series
from gpulake.detect.table_series import series_by
from gpulake.detect.watches import WATCHES, Read

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

    def series(self, read: Read, subject: str | None = None) -> Iterator[Series]:
        query = HOURS.format(poor=POOR_COVERAGE)
        return series_by(read(query), ["cluster_id"], ["gpu_util_ratio"], HOUR_MS, "ratio", subject)

    def describe(self, series: Series, scores: Scores, alarm: Alarm) -> Finding | None:
        seen = peak_of(series, scores, alarm)
        # A single unusual hour may be due to a few jobs.
        if seen.flagged < LEAST_HOURS:
            return None
        return Finding(
            kind="unusual_utilisation",
            subject=series.subject,
            headline=(
                f"GPUs of {series.subject} were {seen.value:.0%} busy at {time_text(alarm.peak_ms)}, "
                f"far {seen.side} the usual {seen.expected:.0%} of that hour"
            ),
            detail=f"{seen.flagged} hours from {time_text(alarm.begin_ms)} on were unlike the same hours of other days",
            value=seen.value,
            unit="ratio",
            severity="warning" if seen.flagged >= LONG_HOURS else "info",
            remedy=REMEDY,
        )


REMEDY = "see who held the GPUs then: gpulake report efficiency; and whether jobs failed or waited"
