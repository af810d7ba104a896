"""A user with far more jobs than usual that hold GPUs and do not use them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from gpulake.core.types import Finding
from gpulake.detect.alarms import Alarm, flagged_points, period, time_text
from gpulake.detect.detectors.excess import EVENTS, OUT_OF, Excess
from gpulake.detect.series import HOUR_MS, Detector, Scores, Series, utc
from gpulake.detect.table_series import series_by
from gpulake.detect.watches import WATCHES, Read

LEAST_JOBS = 20
LEAST_TIMES = 4.0  # the number expected by the user's past share
# Only users with a day of at least that many such jobs, far more than their mean, are read.
HOURS = """
WITH jobs AS (
    SELECT cluster_id, job_key, date_trunc('hour', min(held_from)) AS hour, bool_and(bucket = 'idle') AS is_empty
    FROM silver_holdings
    WHERE bucket IN ('idle', 'used')
    GROUP BY cluster_id, job_key
),
empty AS (
    SELECT jobs.cluster_id, owned.user_id, jobs.hour, count(*) AS jobs
    FROM jobs
    INNER JOIN silver_jobs AS owned ON jobs.job_key = owned.job_key
    WHERE jobs.is_empty AND owned.user_id IS NOT NULL
    GROUP BY ALL
),
hours AS (SELECT cluster_id, hour, sum(jobs) AS jobs FROM empty GROUP BY ALL),
days AS (SELECT cluster_id, user_id, date_trunc('day', hour) AS day, sum(jobs) AS jobs FROM empty GROUP BY ALL),
spans AS (SELECT cluster_id, date_diff('day', min(hour), max(hour)) + 1 AS days FROM hours GROUP BY ALL),
strange AS (
    SELECT days.cluster_id, days.user_id
    FROM days
    INNER JOIN spans ON days.cluster_id = spans.cluster_id
    GROUP BY days.cluster_id, days.user_id, spans.days
    HAVING max(days.jobs) >= {least} / 2 AND max(days.jobs) >= 3 * sum(days.jobs) / spans.days
)
SELECT
    hours.cluster_id,
    strange.user_id,
    epoch_ms(hours.hour) AS at_ms,
    coalesce(empty.jobs, 0) AS empty_jobs,
    hours.jobs AS all_empty_jobs
FROM hours
INNER JOIN strange ON hours.cluster_id = strange.cluster_id
LEFT JOIN empty
    ON hours.cluster_id = empty.cluster_id AND hours.hour = empty.hour AND strange.user_id = empty.user_id
ORDER BY hours.cluster_id, strange.user_id, at_ms
"""
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
