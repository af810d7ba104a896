"""Hours whose jobs fail far more often than others: a broken image, a full disk, a bad release.

A job counts in the hour of its submission, whether it fails early or late. Jobs that still run count as not failed.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from gpulake.core.types import Finding
from gpulake.detect.alarms import Alarm, places_of, time_text
from gpulake.detect.detectors.excess import EVENTS, OUT_OF, Excess
from gpulake.detect.series import HOUR_MS, Detector, Scores, Series, utc
from gpulake.detect.table_series import series_by
from gpulake.detect.watches import WATCHES, Read

LEAST_FAILED = 10
LEAST_TIMES = 1.3  # the usual share
HOURS = """
SELECT
    cluster_id,
    epoch_ms(submitted_at) // 3600000 * 3600000 AS at_ms,
    count(*) FILTER (status IN ('failed', 'node_fail')) AS failed_jobs,
    count(*) AS submitted_jobs
FROM silver_jobs
WHERE submitted_at IS NOT NULL
GROUP BY ALL
ORDER BY cluster_id, at_ms
"""
SHARE = Excess(window_points=4, least_deviance=17.5)  # chance exceeds it in one of 70,000 windows


@WATCHES.register("failures")
@dataclass(frozen=True)
class Failures:
    tables: tuple[str, ...] = ("silver_jobs",)
    detector: Detector = SHARE

    def series(self, read: Read, subject: str | None = None) -> Iterator[Series]:
        metrics = ["failed_jobs", "submitted_jobs"]
        return series_by(read(HOURS), ["cluster_id"], metrics, HOUR_MS, "jobs", subject, is_dense=True)

    def describe(self, series: Series, scores: Scores, alarm: Alarm) -> Finding | None:
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
                f"{failed / submitted:.0%} of the jobs submitted to {series.subject} from {time_text(begin_ms)} on "
                f"failed, instead of the usual {expected / submitted:.0%}"
            ),
            detail=f"{failed:,.0f} of {submitted:,.0f} jobs until {time_text(alarm.end_ms + series.interval_ms)}",
            value=failed / submitted,
            unit="ratio",
            remedy="diagnose the log of one of them: gpulake diagnose LOG; look for what changed just before",
            began_at=utc(begin_ms),
        )


def _hours(series: Series, scores: Scores, alarm: Alarm) -> slice:
    """From the first hour with more failures than usual in the window that raised the alarm, to the alarm's end."""
    first, last = places_of(series, alarm)
    begin = max(first - SHARE.window_points + 1, 0)
    is_more = series.values[begin : first + 1, EVENTS] > scores.expected[begin : first + 1, EVENTS]
    return slice(begin + int(np.argmax(is_more)), last + 1)
