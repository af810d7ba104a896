"""A machine on which everything takes longer than elsewhere.

A run is compared with the other runs of its recurrence group and role. A gang waits for its slowest worker, so that
peers of one job take equally long, and a gang on several machines does not show which of them is slow: only runs on one
machine count. A machine has a point a group and day: the natural logarithm of how many times longer its runs took.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from gpulake.core.packaged import packaged_text
from gpulake.core.types import Finding
from gpulake.detect.alarms import Alarm, flagged_points, period
from gpulake.detect.detectors.drift import Drift
from gpulake.detect.series import HOUR_MS, Detector, Scores, Series, usual_interval_ms, utc
from gpulake.detect.table_series import series_by
from gpulake.detect.watches import WATCHES, Read

LEAST_TIMES = 1.25
LEAST_RUNS = 5  # of a group, to have a usual duration
WINDOW_RUNS = 20
STRANGE_TIMES = 1.2  # over WINDOW_RUNS runs: other machines are not read
RUNS = packaged_text("gpulake.detect.watches", "slow_machines.sql")
# A few hundred runs have too short a tail to raise the threshold further.
LASTING = Drift(least_sum=15.0, most_sum=20.0)
ALARMING_RUNS = 5  # runs before the alarm that contributed to it


@WATCHES.register("slow_machines")
@dataclass(frozen=True)
class SlowMachines:
    tables: tuple[str, ...] = ("silver_instances", "silver_jobs", "silver_machines")
    detector: Detector = LASTING

    def series(self, read: Read, subject: str | None = None) -> Iterator[Series]:
        query = RUNS.format(
            least_runs=LEAST_RUNS,
            window=WINDOW_RUNS - 1,
            least_points=LASTING.least_points,
            times=STRANGE_TIMES,
        )
        keys = ["cluster_id", "machine_id"]
        for series in series_by(read(query), keys, ["log_times_longer"], HOUR_MS, "log ratio", subject):
            yield replace(series, interval_ms=usual_interval_ms(series.times_ms))

    def describe(self, series: Series, scores: Scores, alarm: Alarm) -> Finding | None:
        is_flagged = flagged_points(series, scores, alarm)
        # The sum decays slowly: runs were slow until its last maximum.
        first = int(np.searchsorted(series.times_ms, alarm.begin_ms))
        highest = scores.score[is_flagged].max()
        last = int(np.flatnonzero(is_flagged & (scores.score >= 0.999 * highest))[-1])
        slow = series.values[max(first - ALARMING_RUNS, 0) : last + 1, 0]
        times = float(np.exp(np.median(slow) - scores.expected[is_flagged, 0].min()))
        alarm = replace(alarm, end_ms=int(series.times_ms[last]))
        if times < LEAST_TIMES:
            return None
        return Finding(
            kind="slow_machine",
            subject=series.subject,
            headline=(
                f"runs on machine {series.subject} took about {times:.1f} times as long as usual "
                f"{period(series, alarm)}"
            ),
            detail=f"{len(slow)} runs compared with others of the same groups, elsewhere and before",
            value=times,
            unit="times",
            ended_at=utc(alarm.end_ms + series.interval_ms),
            remedy="compare clocks, throttling and PCIe width with its neighbours; drain it and run a burn-in",
        )
