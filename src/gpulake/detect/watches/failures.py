"""Jobs submitted in some hours fail far more often than others do: a broken image, a full disk, a bad release.

Jobs are counted in the hour in which they were submitted, since what fails early and what fails late then falls into
the same hours. Those that still run count as not failed.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from gpulake.core.types import Finding
from gpulake.detect.alarms import Alarm
from gpulake.detect.detectors.excess import EVENTS, OUT_OF, Excess
from gpulake.detect.series import Detector, Scores, Series
from gpulake.detect.tabled import HOUR_MS, grouped, series_of
from gpulake.detect.telling import at, moment
from gpulake.detect.watches import WATCHES, Read, Watched

LEAST_FAILED = 10
LEAST_TIMES = 1.3  # the usual share
HOURS = """
SELECT
    cluster_id,
    epoch_ms(date_trunc('hour', submitted_at)) AS at_ms,
    count(*) FILTER (status IN ('failed', 'node_fail')) AS failed_jobs,
    count(*) AS submitted_jobs
FROM silver_jobs
WHERE submitted_at IS NOT NULL
GROUP BY ALL
ORDER BY cluster_id, at_ms
"""
SHARE = Excess(window_points=4, least_deviance=17.5)  # chance alone exceeds it in one of 70,000 windows


@WATCHES.register("failures")
@dataclass(frozen=True)
class Failures:
    tables: tuple[str, ...] = ("silver_jobs",)
    detector: Detector = SHARE

    def watched(self, read: Read, subject: str | None = None) -> Iterator[Watched]:
        for (cluster,), rows in grouped(read(HOURS), ["cluster_id"]):
            if subject in (None, cluster):
                series = series_of(cluster, rows, ["failed_jobs", "submitted_jobs"], HOUR_MS, is_dense=True)
                yield Watched(series, "jobs", cluster)

    def told(self, watched: Watched, scores: Scores, alarm: Alarm) -> Finding | None:
        series = watched.series
        hours = _hours(series, scores, alarm)
        failed, submitted = (float(series.values[hours, place].sum()) for place in (EVENTS, OUT_OF))
        expected = float(scores.expected[hours, EVENTS].sum())
        if failed < LEAST_FAILED or failed < LEAST_TIMES * expected:
            return None
        begin_ms = int(series.times_ms[hours.start])
        return Finding(
            kind="failure_burst",
            subject=series.subject,
            headline=(
                f"{failed / submitted:.0%} of the jobs submitted to {series.subject} from {moment(begin_ms)} on "
                f"failed, instead of the usual {expected / submitted:.0%}"
            ),
            detail=f"{failed:,.0f} of {submitted:,.0f} jobs until {moment(alarm.end_ms + series.interval_ms)}",
            value=failed / submitted,
            unit="ratio",
            severity="warning",
            remedy="diagnose the log of one of them: gpulake diagnose LOG; look for what changed just before",
            began_at=at(begin_ms),
        )


def _hours(series: Series, scores: Scores, alarm: Alarm) -> slice:
    """An hour is flagged for the window that ends with it: the burst began with the first hour there that had more
    failures than usual."""
    first, last = np.searchsorted(series.times_ms, [alarm.begin_ms, alarm.end_ms]).tolist()
    begin = max(first - SHARE.window_points + 1, 0)
    is_more = series.values[begin : first + 1, EVENTS] > scores.expected[begin : first + 1, EVENTS]
    return slice(begin + int(np.argmax(is_more)), last + 1)
