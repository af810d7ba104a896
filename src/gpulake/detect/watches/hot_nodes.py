"""Nodes whose GPUs are all too hot for hours, alone or in a row: no neighbour on the node shows that."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np

from gpulake.core.types import Finding
from gpulake.detect.alarms import Alarm, flagged_points, period
from gpulake.detect.detectors.limit import Limit
from gpulake.detect.rows_of_nodes import names_and_reason, rows_of_nodes
from gpulake.detect.series import Detector, Scores, Series
from gpulake.detect.watches import WATCHES, Read

HOT_CELSIUS = 87.0  # data-centre boards slow down between 85 and 95 °C
HOURS = """
    SELECT cluster_id, node_id, epoch_ms(started_at) AS at_ms, 'heat' AS reason, median(mean_celsius) AS seen
    FROM silver_gpu_hours
    WHERE observed_hours > 0 AND node_id IS NOT NULL AND started_at IS NOT NULL
    GROUP BY ALL
"""
HEAT = Limit(limit=HOT_CELSIUS)


@WATCHES.register("hot_nodes")
@dataclass(frozen=True)
class HotNodes:
    tables: tuple[str, ...] = ("silver_gpu_hours",)
    detector: Detector = HEAT

    def series(self, read: Read, subject: str | None = None) -> Iterator[Series]:
        return rows_of_nodes(read, HOURS, HEAT, "°C", subject)

    def describe(self, series: Series, scores: Scores, alarm: Alarm) -> Finding | None:
        celsius = float(np.nanmax(series.values[flagged_points(series, scores, alarm)]))
        names, nodes, _ = names_and_reason(series)
        return Finding(
            kind="hot_node",
            subject=names,
            headline=f"GPUs of {nodes} were at {celsius:.0f} °C {period(series, alarm)}",
            detail=f"median of a node's GPUs at most {celsius:.0f} °C, where {HOT_CELSIUS:.0f} is too hot",
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
            }
            for hour in range(48)
            for gpu in range(8)
        ]
    }
