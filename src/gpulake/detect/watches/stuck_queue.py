"""Jobs wait for GPUs for hours in which nothing starts, though most GPUs are free."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from gpulake.core.types import Finding
from gpulake.detect.alarms import Alarm, flagged_points, period
from gpulake.detect.detectors.limit import Limit
from gpulake.detect.series import HOUR_MS, Detector, Scores, Series
from gpulake.detect.table_series import series_by
from gpulake.detect.watches import WATCHES, Read

LEAST_FREE = 0.5  # of the GPUs that are in service
LEAST_WAITING = 4.0  # GPUs, and a twentieth of those in service: one job may ask for what there is not
LEAST_STARTS = 1.0  # an hour on average: in a cluster where little starts, a quiet hour says nothing
# GPUs that wait in an hour in which no attempt started on as many free ones; 0 in all other hours.
HOURS = """
WITH starts AS (
    SELECT cluster_id, date_trunc('hour', started_at) AS hour, count(*) AS starts
    FROM silver_instances WHERE gpus > 0 AND started_at IS NOT NULL GROUP BY ALL
),
busy AS (
    SELECT cluster_id FROM starts GROUP BY cluster_id
    HAVING sum(starts) >= {least_starts} * (date_diff('hour', min(hour), max(hour)) + 1)
),
demand AS (
    SELECT
        cluster_id, started_at, sum(waiting_gpu_hours) AS waiting, sum(held_gpu_hours) AS held,
        sum(available_gpu_hours) AS available
    FROM gold_demand_hourly WHERE started_at IS NOT NULL GROUP BY ALL
)
SELECT
    demand.cluster_id, epoch_ms(demand.started_at) AS at_ms,
    CASE WHEN starts.starts IS NULL AND available - held >= greatest({least_free} * available, waiting)
            AND waiting >= greatest({least_waiting}, 0.05 * available)
        THEN waiting ELSE 0 END AS stuck_gpus
FROM demand
SEMI JOIN busy ON demand.cluster_id = busy.cluster_id
LEFT JOIN starts ON demand.cluster_id = starts.cluster_id AND date_trunc('hour', demand.started_at) = starts.hour
ORDER BY demand.cluster_id, at_ms
"""

STUCK = Limit({"stuck_gpus": 1.0}, points=3)


@WATCHES.register("stuck_queue")
@dataclass(frozen=True)
class StuckQueue:
    tables: tuple[str, ...] = ("gold_demand_hourly", "silver_instances")
    detector: Detector = STUCK

    def series(self, read: Read, subject: str | None = None) -> Iterator[Series]:
        return series_by(
            read(HOURS.format(least_waiting=LEAST_WAITING, least_free=LEAST_FREE, least_starts=LEAST_STARTS)),
            ["cluster_id"],
            ["stuck_gpus"],
            HOUR_MS,
            "GPUs",
            subject,
        )

    def describe(self, series: Series, scores: Scores, alarm: Alarm) -> Finding | None:
        most = float(series.values[flagged_points(series, scores, alarm)].max())
        return Finding(
            kind="stuck_queue",
            subject=series.subject,
            headline=f"nothing starts on {series.subject} {period(series, alarm)}, and jobs wait for {most:,.0f} GPUs",
            detail="no attempt with GPUs started, and more GPUs were free than jobs waited for",
            value=most,
            unit="GPUs",
            remedy="look at the scheduler (is it up? a reservation, a limit, a partition that is closed?) and its log",
        )


def example(subject: str) -> dict[str, list[dict[str, Any]]]:
    """Three days of starts every hour; in the last five hours nothing starts and four GPUs are waited for."""
    begin, hours = datetime(2026, 1, 5, tzinfo=UTC), range(72)
    return {
        "gold_demand_hourly": [
            {
                "cluster_id": subject,
                "started_at": begin + timedelta(hours=hour),
                "waiting_gpu_hours": 4.0 if hour >= 67 else 0.5,
                "held_gpu_hours": 2.0,
                "available_gpu_hours": 16.0,
            }
            for hour in hours
        ],
        "silver_instances": [
            {"cluster_id": subject, "started_at": begin + timedelta(hours=hour, minutes=10 * one), "gpus": 1.0}
            for hour in hours
            if hour < 67
            for one in range(3)
        ],
    }
