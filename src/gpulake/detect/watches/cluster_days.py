"""A day of a cluster that is unlike other days of its name. Poorly covered days are neither learned nor judged."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from gpulake.core.types import Finding
from gpulake.core.words import count
from gpulake.detect.alarms import Alarm
from gpulake.detect.detectors.seasonal import Seasonal
from gpulake.detect.series import DAY_MS, Detector, Scores
from gpulake.detect.tabled import grouped, series_of
from gpulake.detect.telling import at, moment, peak
from gpulake.detect.watches import WATCHES, Read, Watched
from gpulake.detect.watches.cluster_hours import REMEDY

DAYS = """
SELECT
    daily.cluster_id,
    epoch_ms(days.started_at) AS at_ms,
    CASE WHEN NOT daily.is_poorly_covered THEN daily.gpu_util_ratio END AS gpu_util_ratio
FROM gold_cluster_util_daily AS daily
INNER JOIN silver_days AS days ON daily.cluster_id = days.cluster_id AND daily.dt = days.dt
ORDER BY daily.cluster_id, at_ms
"""
NOON_MS = DAY_MS // 2

SEASONS = Seasonal(alarms_a_day=0.02, least_points=14, least_deviations=5.0)


@WATCHES.register("cluster_days")
@dataclass(frozen=True)
class ClusterDays:
    tables: tuple[str, ...] = ("gold_cluster_util_daily", "silver_days")
    detector: Detector = SEASONS

    def watched(self, read: Read, subject: str | None = None) -> Iterator[Watched]:
        for (cluster,), rows in grouped(read(DAYS), ["cluster_id"]):
            if subject in (None, cluster):
                yield Watched(series_of(cluster, rows, ["gpu_util_ratio"], DAY_MS), "ratio", cluster)

    def told(self, watched: Watched, scores: Scores, alarm: Alarm) -> Finding | None:
        seen = peak(watched.series, scores, alarm)
        cluster = watched.series.subject
        # Wherever the cluster is, its noon is about as far from its midnight; no place is twelve hours off its own day.
        day = at(alarm.peak_ms + NOON_MS)
        return Finding(
            kind="unusual_utilisation",
            subject=cluster,
            headline=(
                f"on {day:%A, %Y-%m-%d} GPUs of {cluster} were {seen.value:.1%} busy, "
                f"far {seen.side} the {seen.expected:.1%} of other {day:%A}s"
            ),
            detail=f"{count(seen.flagged, 'day')} from {moment(alarm.begin_ms)} on; poorly covered days are left out",
            value=seen.value,
            unit="ratio",
            day=f"{at(alarm.begin_ms + NOON_MS):%Y-%m-%d}",
            severity="warning",
            remedy=REMEDY,
        )
