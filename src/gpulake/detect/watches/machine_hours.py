"""A machine whose allocated GPUs do far less than they used to, for many hours."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from gpulake.core.packaged import packaged_text
from gpulake.core.types import Finding
from gpulake.detect.alarms import Alarm, flagged_points, period
from gpulake.detect.detectors.drift import Drift
from gpulake.detect.series import HOUR_MS, Detector, Scores, Series
from gpulake.detect.table_series import series_by
from gpulake.detect.watches import WATCHES, Read

METRIC = "used_ratio"
LEAST_HOURS = 24
LEAST_FALL = 0.3
# The used share of the GPU-hours that were held and observed; hours in which little was are left out. Only machines are
# read that had both well used and little used half-days.
HOURS = packaged_text("gpulake.detect.watches", "machine_hours.sql")
LESS = Drift(side="low", least_sum=20.0, least_points=7 * 24)


@WATCHES.register("machine_hours")
@dataclass(frozen=True)
class MachineHours:
    tables: tuple[str, ...] = ("gold_machine_hours", "silver_machines")
    detector: Detector = LESS

    def series(self, read: Read, subject: str | None = None) -> Iterator[Series]:
        query = HOURS.format(fall=LEAST_FALL)
        return series_by(read(query), ["cluster_id", "machine_id"], [METRIC], HOUR_MS, "ratio", subject)

    def describe(self, series: Series, scores: Scores, alarm: Alarm) -> Finding | None:
        is_flagged = flagged_points(series, scores, alarm)
        used = float(np.nanmean(series.values[is_flagged, 0]))
        usual = float(scores.expected[is_flagged, 0][0])
        if usual - used < LEAST_FALL or int(is_flagged.sum()) < LEAST_HOURS:
            return None
        return Finding(
            kind="under_used_machine",
            subject=series.subject,
            headline=(
                f"machine {series.subject} used {used:.0%} of its held GPUs {period(series, alarm)}, "
                f"where {usual:.0%} was usual"
            ),
            detail=f"over {int(is_flagged.sum())} hours in which a quarter of it or more was held and observed",
            value=used,
            unit="ratio",
            remedy="see who holds it and whether its disks, network or CPUs keep the GPUs waiting",
        )
