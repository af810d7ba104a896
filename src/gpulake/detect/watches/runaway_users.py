"""A user whose jobs hold GPUs and use none of them, in a crowd that is new for that user."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from gpulake.core.types import Finding
from gpulake.detect.alarms import Alarm
from gpulake.detect.detectors.excess import EVENTS, OUT_OF, Excess
from gpulake.detect.series import Detector, Scores
from gpulake.detect.tabled import HOUR_MS, grouped, series_of
from gpulake.detect.telling import at, flagged, moment, when
from gpulake.detect.watches import WATCHES, Read, Watched

LEAST_JOBS = 20
LEAST_TIMES = 4.0  # as many as the user's share of the past lets expect
# Only users with a day of so many such jobs, and of far more than their own mean, are looked at.
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

    def watched(self, read: Read, subject: str | None = None) -> Iterator[Watched]:
        for (cluster, user), rows in grouped(read(HOURS.format(least=LEAST_JOBS)), ["cluster_id", "user_id"]):
            if subject in (None, user):
                series = series_of(user, rows, ["empty_jobs", "all_empty_jobs"], HOUR_MS, is_dense=True)
                yield Watched(series, "jobs", cluster)

    def told(self, watched: Watched, scores: Scores, alarm: Alarm) -> Finding | None:
        series, is_flagged = watched.series, flagged(watched.series, scores, alarm)
        jobs, every = (float(series.values[is_flagged, place].sum()) for place in (EVENTS, OUT_OF))
        expected = float(scores.expected[is_flagged, EVENTS].sum())
        if jobs < LEAST_JOBS or jobs < LEAST_TIMES * expected:
            return None
        # The window looks back on a day, and is flagged for as long; the crowd ended with its last job.
        last = int(series.times_ms[is_flagged & (series.values[:, EVENTS] > 0)][-1])
        crowd = replace(alarm, end_ms=last)
        until = last + series.interval_ms
        return Finding(
            kind="runaway_user",
            subject=series.subject,
            headline=(
                f"user {series.subject} submitted {jobs:,.0f} jobs {when(series, crowd)} "
                f"that held GPUs and used none, instead of the usual {expected:,.0f}"
            ),
            detail=f"{jobs / every:.0%} of all jobs with empty GPUs until {moment(until)}",
            value=jobs,
            unit="jobs",
            severity="warning",
            remedy="ask the user whether a loop submits them, and stop it",
            ended_at=at(until),
        )
