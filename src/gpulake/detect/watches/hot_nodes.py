"""A node whose GPUs are all too hot, or throttled by heat, for hours: no neighbour on it shows that."""

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

HOT_CELSIUS = 87.0  # data-centre boards slow down between 85 and 95 °C
THROTTLED_RATIO = 0.25
# Only nodes with such an hour are read.
HOURS = """
WITH hours AS (
    SELECT
        cluster_id, node_id, epoch_ms(started_at) AS at_ms, median(mean_celsius) AS celsius,
        sum(thermal_hours) / nullif(sum(observed_hours), 0) AS throttled_ratio
    FROM silver_gpu_hours
    WHERE observed_hours > 0 AND node_id IS NOT NULL AND started_at IS NOT NULL
    GROUP BY ALL
)
SELECT * FROM hours
SEMI JOIN (
    SELECT DISTINCT cluster_id, node_id FROM hours
    WHERE celsius >= {hot_celsius} OR throttled_ratio >= {throttled_ratio}
) AS hot USING (cluster_id, node_id)
ORDER BY cluster_id, node_id, at_ms
"""

HEAT = Limit({"celsius": HOT_CELSIUS, "throttled_ratio": THROTTLED_RATIO})


@WATCHES.register("hot_nodes")
@dataclass(frozen=True)
class HotNodes:
    tables: tuple[str, ...] = ("silver_gpu_hours",)
    detector: Detector = HEAT

    def series(self, read: Read, subject: str | None = None) -> Iterator[Series]:
        metrics = ["celsius", "throttled_ratio"]
        return series_by(
            read(HOURS.format(hot_celsius=HOT_CELSIUS, throttled_ratio=THROTTLED_RATIO)),
            ["cluster_id", "node_id"],
            metrics,
            HOUR_MS,
            "°C",
            subject,
        )

    def describe(self, series: Series, scores: Scores, alarm: Alarm) -> Finding | None:
        flagged = series.values[flagged_points(series, scores, alarm)]
        celsius, throttled = (float(value) for value in flagged.max(axis=0))
        heat = f"at {celsius:.0f} °C" if celsius >= HOT_CELSIUS else "slowed by heat"
        return Finding(
            kind="hot_node",
            subject=series.subject,
            headline=f"GPUs of node {series.subject} were {heat} {period(series, alarm)}",
            detail=(
                f"median of the node's GPUs at most {celsius:.0f} °C, where {HOT_CELSIUS:.0f} is too hot; heat slowed "
                f"their clocks for up to {throttled:.0%} of an hour"
            ),
            value=celsius,
            unit="°C",
            remedy="look at the fans, the inlet temperature and the cooling of the rack; compare the nodes beside it",
        )


def example(subject: str) -> dict[str, list[dict[str, Any]]]:
    """Two days of eight GPUs; in the last ten hours all of them are at 93 °C."""
    begin = datetime(2026, 1, 5, tzinfo=UTC)
    return {
        "silver_gpu_hours": [
            {
                "cluster_id": "c",
                "node_id": subject,
                "gpu": str(gpu),
                "started_at": begin + timedelta(hours=hour),
                "observed_hours": 1.0,
                "mean_celsius": 93.0 if hour >= 38 else 60.0 + gpu,
                "thermal_hours": 0.0,
            }
            for hour in range(48)
            for gpu in range(8)
        ]
    }
