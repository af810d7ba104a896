"""Watches for memory that fills up in a straight line: a leak, reported before the memory is full."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta

import numpy as np

from gpulake.core.packaged import queries
from gpulake.core.types import Finding
from gpulake.detect.alarms import Alarm, flagged_points, is_over, time_text
from gpulake.detect.detectors.saturation import Saturation
from gpulake.detect.series import Floats, Scores, Series, utc
from gpulake.detect.table_series import grouped, series_of
from gpulake.detect.watches import Read

METRIC = "memory_used_ratio"
LEAST_RATIO = 0.5  # less full than that is not reported
SATURATION = Saturation()
LEAST_HELD = 0.9  # of the used memory: memory that stays allocated was loaded, not leaked
FULL_RATIO = 0.97
SQL = queries("gpulake.detect", "queries.sql")


@dataclass(frozen=True)
class MemoryWatch:
    tables: tuple[str, ...]
    samples: str  # a query of cluster_id, node_id, subject, holder, sampled_at, covers_seconds and ratio
    kind: str
    memory: str
    remedy: str
    detector: Saturation = SATURATION

    def series(self, read: Read, subject: str | None = None) -> Iterator[Series]:
        rows = read(SQL["memory_points"].format(samples=self.samples, least=LEAST_RATIO))
        keys = ["cluster_id", "node_id", "subject", "holder", "step_ms"]
        for (cluster, node, name, _, step_ms), here in grouped(rows, keys):
            if subject in (None, name):
                yield series_of(name, here, [METRIC], int(step_ms), "ratio", cluster, node)

    def describe(self, series: Series, scores: Scores, alarm: Alarm) -> Finding | None:
        places = np.flatnonzero(flagged_points(series, scores, alarm))
        # The last points of an alarm may be those at which the memory was released.
        here = int(places[np.argmax(series.values[places, 0])])
        peak_ms, used = int(series.times_ms[here]), float(series.values[here, 0])
        recent = slice(max(0, here - SATURATION.trend_points + 1), here + 1)
        slope = float(np.polyfit(series.times_ms[recent] - series.times_ms[here], series.values[recent, 0], 1)[0])
        after = series.values[here + 1 : here + 1 + SATURATION.trend_points, 0]
        if used < LEAST_RATIO or slope <= 0 or _is_held(used, after):
            return None
        full = utc(peak_ms) + timedelta(milliseconds=(1.0 - used) / slope)
        pace = f"is {used:.0%} full, and will be full at {full:%Y-%m-%d %H:%M} UTC"
        if is_over(series, alarm):
            pace = f"was {used:.0%} full at {time_text(peak_ms)}; it would have been full at {full:%Y-%m-%d %H:%M} UTC"
        return Finding(
            kind=self.kind,
            subject=series.subject,
            headline=f"{self.memory} of {series.subject} {pace}",
            detail=(
                f"it grew in a straight line since before {time_text(alarm.begin_ms)}: "
                f"{scores.expected[here, 0]:.0%} was predicted for {time_text(peak_ms)}"
            ),
            value=used,
            unit="ratio",
            remedy=self.remedy,
        )


def _is_held(used: float, after: Floats) -> bool:
    """Whether it stopped growing and stayed: it was loaded, and nothing leaks."""
    enough = SATURATION.trend_points // 2
    return (
        len(after) >= enough and float(np.nanmin(after)) >= LEAST_HELD * used and float(np.nanmax(after)) < FULL_RATIO
    )
