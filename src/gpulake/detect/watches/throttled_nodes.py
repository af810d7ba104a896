"""Nodes whose GPUs are all throttled for hours, alone or in a row: by the power brake, by heat, or at low clocks.

At full load the driver's power cap lowers clocks a little, which is usual. What counts is the hardware's power brake,
heat, and clocks far below those of busy GPUs of the same model. Nodes at the limit of `hot_nodes` are reported there.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np

from gpulake.core.packaged import packaged_text
from gpulake.core.types import Finding
from gpulake.detect.alarms import Alarm, flagged_points, period
from gpulake.detect.detectors.limit import Limit
from gpulake.detect.rows_of_nodes import names_and_reason, rows_of_nodes
from gpulake.detect.series import Detector, Scores, Series
from gpulake.detect.watches import WATCHES, Read
from gpulake.detect.watches.hot_nodes import HOT_CELSIUS

SLOW_RATIO = 0.6  # of the median clock of its model: at its power cap a GPU rarely falls below 0.7 of it
HOURS = packaged_text("gpulake.detect.watches", "throttled_nodes.sql")
REASONS = {
    "power": (
        "throttled for power",
        "the hardware's power brake held back their clocks",
        "look at the power supplies and the PDU that they share, and at the power limit of the rack",
    ),
    "heat": (
        "throttled for heat",
        "heat held back their clocks",
        "look at the fans, the inlet temperature and the cooling of the rack",
    ),
    "low clocks": (
        "far below their usual clocks",
        f"busy at less than {SLOW_RATIO:.0%} of the usual clock of their model",
        "see what holds back their clocks: nvidia-smi -q -d PERFORMANCE,POWER,CLOCK",
    ),
}
THROTTLED = Limit(limit=0.25)  # of the time of a node's GPUs


@WATCHES.register("throttled_nodes")
@dataclass(frozen=True)
class ThrottledNodes:
    tables: tuple[str, ...] = ("silver_gpu_hours",)
    detector: Detector = THROTTLED

    def series(self, read: Read, subject: str | None = None) -> Iterator[Series]:
        hours = HOURS.format(hot_celsius=HOT_CELSIUS, slow_ratio=SLOW_RATIO)
        return rows_of_nodes(read, hours, THROTTLED, "ratio", subject)

    def describe(self, series: Series, scores: Scores, alarm: Alarm) -> Finding | None:
        ratio = float(np.nanmax(series.values[flagged_points(series, scores, alarm)]))
        names, nodes, reason = names_and_reason(series)
        state, why, remedy = REASONS[reason]
        return Finding(
            kind="throttled_node",
            subject=names,
            headline=f"GPUs of {nodes} were {state} {period(series, alarm)}",
            detail=f"{why} for up to {ratio:.0%} of an hour; a job waits for its slowest GPU",
            value=ratio,
            unit="ratio",
            remedy=remedy,
        )


def example(subject: str) -> dict[str, list[dict[str, Any]]]:
    """Two days of a row of four nodes; in the last ten hours the power brake holds back all of their GPUs."""
    begin = datetime(2026, 1, 5, tzinfo=UTC)
    return {
        "silver_gpu_hours": [
            {
                "cluster_id": "c",
                "node_id": f"{subject}{node}",
                "gpu": str(gpu),
                "gpu_name": "NVIDIA H100 80GB HBM3",
                "started_at": begin + timedelta(hours=hour),
                "observed_hours": 1.0,
                "mean_celsius": 60.0,
                "thermal_hours": 0.0,
                "braked_hours": 1.0 if hour >= 38 and node < 4 else 0.0,
                "loaded_clock_hertz": 8e8 if hour >= 38 and node < 4 else 1.9e9,
            }
            for hour in range(48)
            for node in range(6)
            for gpu in range(2)
        ]
    }
