"""A day on which the machines of a cluster do far more, or far less, than usual.

Each machine is compared with its own usual day, and all count alike: one large job on a few machines, or other machines
observed than usual, does not make the cluster's day unusual. Poorly covered days are neither learned nor scored.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from gpulake.core.packaged import packaged_text
from gpulake.core.types import Finding
from gpulake.core.words import count
from gpulake.detect.alarms import Alarm, peak_of, time_text
from gpulake.detect.detectors.spell import Spell
from gpulake.detect.series import DAY_MS, Detector, Scores, Series, utc
from gpulake.detect.table_series import series_by
from gpulake.detect.watches import WATCHES, Read
from gpulake.detect.watches.cluster_hours import REMEDY

LEAST_TIMES = 1.15
MOST_TIMES = 2.0  # clip of one machine: an idle one that is used for a day would outweigh all others
IDLE_RATIO = 0.01  # a machine that does less counts as idle
DAYS = packaged_text("gpulake.detect.watches", "cluster_days.sql")
NOON_MS = DAY_MS // 2
UNUSUAL = Spell(windows=(1, 2), least_deviations=4.5, least_spread=0.02)


@WATCHES.register("cluster_days")
@dataclass(frozen=True)
class ClusterDays:
    tables: tuple[str, ...] = ("gold_cluster_util_daily", "silver_days", "silver_machine_stretches", "silver_machines")
    detector: Detector = UNUSUAL

    def series(self, read: Read, subject: str | None = None) -> Iterator[Series]:
        query = DAYS.format(idle=IDLE_RATIO, times=MOST_TIMES)
        return series_by(read(query), ["cluster_id"], ["log_times_busier"], DAY_MS, "log ratio", subject)

    def describe(self, series: Series, scores: Scores, alarm: Alarm) -> Finding | None:
        seen = peak_of(series, scores, alarm)
        times = float(np.exp(seen.value - seen.expected))
        if max(times, 1 / times) < LEAST_TIMES:
            return None
        # At noon the date is the same in UTC and at the cluster, whatever its zone.
        day = utc(alarm.peak_ms + NOON_MS)
        return Finding(
            kind="unusual_utilisation",
            subject=series.subject,
            headline=(
                f"on {day:%A, %Y-%m-%d} the machines of {series.subject} were {times:.2f} times as busy "
                f"as they usually are on a {day:%A}"
            ),
            detail=f"{count(seen.flagged, 'day')} from {time_text(alarm.begin_ms)} on; poorly covered days left out",
            value=times,
            unit="times",
            day=f"{utc(alarm.begin_ms + NOON_MS):%Y-%m-%d}",
            remedy=REMEDY,
        )
