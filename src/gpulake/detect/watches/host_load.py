"""A host whose CPU load is unlike its past, in several metrics at once: a runaway process, a hung disk."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from math import sin
from typing import Any

import numpy as np

from gpulake.core.packaged import packaged_text
from gpulake.core.types import Finding
from gpulake.detect.alarms import Alarm, flagged_points, period
from gpulake.detect.detectors.surprise import Surprise
from gpulake.detect.series import Detector, Scores, Series
from gpulake.detect.table_series import series_by
from gpulake.detect.watches import WATCHES, Read

STEP_MS = 600_000
LEAST_POINTS = 3
LEAST_DIFFERENCE = 0.25
METRICS = {
    "cpu_busy_ratio": "CPU busy",
    "cpu_system_ratio": "CPU in the kernel",
    "cpu_iowait_ratio": "CPU waiting for disks",
    "cpu_steal_ratio": "CPU taken by other guests",
}
# Only hosts are read of which a share was ever that far from its median.
POINTS = packaged_text("gpulake.detect.watches", "host_load.sql")
UNUSUAL = Surprise(alarms_a_day=1.0)


@WATCHES.register("host_load")
@dataclass(frozen=True)
class HostLoad:
    tables: tuple[str, ...] = ("silver_host_samples",)
    detector: Detector = UNUSUAL

    def series(self, read: Read, subject: str | None = None) -> Iterator[Series]:
        query = POINTS.format(least=LEAST_DIFFERENCE)
        return series_by(read(query), ["cluster_id", "node_id"], list(METRICS), STEP_MS, "ratio", subject)

    def describe(self, series: Series, scores: Scores, alarm: Alarm) -> Finding | None:
        is_flagged = flagged_points(series, scores, alarm)
        away = np.nan_to_num(np.abs(series.values - scores.expected)) * is_flagged[:, None]
        if is_flagged.sum() < LEAST_POINTS or away.max() < LEAST_DIFFERENCE:
            return None
        furthest, place = np.unravel_index(np.argmax(away), away.shape)
        value, usual = float(series.values[furthest, place]), float(scores.expected[furthest, place])
        return Finding(
            kind="unusual_host_load",
            subject=series.subject,
            headline=(
                f"{METRICS[series.metrics[place]]} of host {series.subject} is {value:.0%}, "
                f"where {usual:.0%} is usual at that time of day"
            ),
            detail=f"{period(series, alarm)}; shares of all cores, over ten minutes",
            value=value,
            unit="ratio",
            remedy="see what runs on the host (top, iotop), and whether its jobs are slow",
        )


def example(subject: str) -> dict[str, list[dict[str, Any]]]:
    """Five days of a host; in the last hours it waits for its disks."""
    begin = datetime(2026, 1, 5, tzinfo=UTC)
    rows = []
    for place in range(720):
        waits = 0.7 if place >= 700 else 0.02 + 0.01 * sin(place)
        rows.append(
            {
                "cluster_id": "c",
                "node_id": subject,
                "sampled_at": begin + timedelta(minutes=10 * place),
                "cpu_busy_ratio": 0.3 + 0.05 * sin(place / 7),
                "cpu_system_ratio": 0.05 + 0.01 * sin(place / 3),
                "cpu_iowait_ratio": waits,
                "cpu_steal_ratio": 0.0,
            }
        )
    return {"silver_host_samples": rows}
