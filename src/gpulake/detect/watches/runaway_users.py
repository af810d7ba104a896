"""A user with far more jobs than usual that hold GPUs and do not use them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from gpulake.core.packaged import packaged_text
from gpulake.core.types import Finding
from gpulake.detect.alarms import Alarm, flagged_points, period, time_text
from gpulake.detect.detectors.excess import EVENTS, OUT_OF, Excess
from gpulake.detect.series import HOUR_MS, Detector, Scores, Series, utc
from gpulake.detect.table_series import series_by
from gpulake.detect.watches import WATCHES, Read

LEAST_JOBS = 20
LEAST_TIMES = 4.0  # the number expected by the user's past share
# Only users with a day of at least that many such jobs, far more than their mean, are read.
HOURS = packaged_text("gpulake.detect.watches", "runaway_users.sql")
CROWD = Excess(window_points=24)


@WATCHES.register("runaway_users")
@dataclass(frozen=True)
class RunawayUsers:
    tables: tuple[str, ...] = ("silver_holdings", "silver_jobs")
    detector: Detector = CROWD

    def series(self, read: Read, subject: str | None = None) -> Iterator[Series]:
        query, metrics = HOURS.format(least=LEAST_JOBS), ["empty_jobs", "all_empty_jobs"]
        return series_by(read(query), ["cluster_id", "user_id"], metrics, HOUR_MS, "jobs", subject, is_dense=True)

    def describe(self, series: Series, scores: Scores, alarm: Alarm) -> Finding | None:
        is_flagged = flagged_points(series, scores, alarm)
        jobs, every = (float(series.values[is_flagged, place].sum()) for place in (EVENTS, OUT_OF))
        expected = float(scores.expected[is_flagged, EVENTS].sum())
        if jobs < LEAST_JOBS or jobs < LEAST_TIMES * expected:
            return None
        # The window of a day stays flagged after the last job, so the end is that of the last job.
        last = int(series.times_ms[is_flagged & (series.values[:, EVENTS] > 0)][-1])
        alarm = replace(alarm, end_ms=last)
        until = last + series.interval_ms
        return Finding(
            kind="runaway_user",
            subject=series.subject,
            headline=(
                f"user {series.subject} submitted {jobs:,.0f} jobs {period(series, alarm)} "
                f"that held GPUs and used none, instead of the usual {expected:,.0f}"
            ),
            detail=f"{jobs / every:.0%} of all jobs with empty GPUs until {time_text(until)}",
            value=jobs,
            unit="jobs",
            remedy="ask the user whether a loop submits them, and stop it",
            ended_at=utc(until),
        )
