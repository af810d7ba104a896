"""A user who starts a hundred jobs a day that hold GPUs and use none, far more than in the days before."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from gpulake.core.types import Finding
from gpulake.detect.alarms import Alarm, flagged_points, period
from gpulake.detect.detectors.limit import Limit
from gpulake.detect.series import HOUR_MS, Detector, Scores, Series
from gpulake.detect.table_series import series_by
from gpulake.detect.watches import WATCHES, Read

LEAST_JOBS = 100  # a day
LEAST_RATIO = 0.8  # of the user's jobs that day
LEAST_TIMES = 4.0  # the user's own mean of the days before
# The jobs of the last 24 hours, by hour; 0 where most of them work, or where the user always does that.
HOURS = """
WITH jobs AS (
    SELECT job_key, epoch_ms(min(held_from)) // 3600000 AS hour, bool_and(bucket = 'idle') AS is_empty
    FROM silver_holdings WHERE bucket IN ('idle', 'used', 'failed', 'unobserved') AND held_from IS NOT NULL
    GROUP BY job_key
),
counted AS (
    SELECT owned.cluster_id, owned.user_id, jobs.hour, count_if(is_empty) AS empty, count(*) AS jobs
    FROM jobs INNER JOIN silver_jobs AS owned ON jobs.job_key = owned.job_key
    WHERE owned.user_id IS NOT NULL
    GROUP BY ALL
),
sums AS (
    SELECT
        *,
        sum(empty) OVER a_day AS day_empty, sum(jobs) OVER a_day AS day_jobs,
        sum(empty) OVER (PARTITION BY cluster_id, user_id ORDER BY hour) - sum(empty) OVER a_day AS past_empty,
        (hour - min(hour) OVER (PARTITION BY cluster_id)) / 24.0 - 1 AS past_days
    FROM counted
    WINDOW a_day AS (
        PARTITION BY cluster_id, user_id ORDER BY hour RANGE BETWEEN 23 PRECEDING AND CURRENT ROW
    )
),
judged AS (
    SELECT
        cluster_id, user_id, hour * 3600000 AS at_ms,
        CASE WHEN day_empty >= {least_ratio} * day_jobs
            AND day_empty >= {least_times} * past_empty / greatest(past_days, 1) THEN day_empty ELSE 0 END AS empty_jobs
    FROM sums
)
SELECT * FROM judged
SEMI JOIN (SELECT DISTINCT cluster_id, user_id FROM judged WHERE empty_jobs >= {least_jobs}) AS many
    USING (cluster_id, user_id)
ORDER BY cluster_id, user_id, at_ms
"""

MANY = Limit({"empty_jobs": float(LEAST_JOBS)}, points=1)


@WATCHES.register("empty_jobs")
@dataclass(frozen=True)
class EmptyJobs:
    tables: tuple[str, ...] = ("silver_holdings", "silver_jobs")
    detector: Detector = MANY

    def series(self, read: Read, subject: str | None = None) -> Iterator[Series]:
        return series_by(
            read(HOURS.format(least_jobs=LEAST_JOBS, least_ratio=LEAST_RATIO, least_times=LEAST_TIMES)),
            ["cluster_id", "user_id"],
            ["empty_jobs"],
            HOUR_MS,
            "jobs",
            subject,
        )

    def describe(self, series: Series, scores: Scores, alarm: Alarm) -> Finding | None:
        jobs = float(series.values[flagged_points(series, scores, alarm)].max())
        return Finding(
            kind="runaway_user",
            subject=series.subject,
            headline=f"user {series.subject} ran {jobs:,.0f} jobs within a day that held GPUs and used none",
            detail=f"{period(series, alarm)}; {LEAST_RATIO:.0%} of the user's jobs or more, and far more than before",
            value=jobs,
            unit="jobs",
            remedy="ask the user whether a loop submits them, and stop it",
        )


def example(subject: str) -> dict[str, list[dict[str, Any]]]:
    """Two days of a working job an hour; then ten empty ones an hour."""
    begin = datetime(2026, 1, 5, tzinfo=UTC)
    hours = [hour for hour in range(62) for _ in range(1 if hour < 48 else 10)]
    return {
        "silver_holdings": [
            {
                "cluster_id": "c",
                "job_key": key,
                "bucket": "used" if hour < 48 else "idle",
                "held_from": begin + timedelta(hours=hour),
            }
            for key, hour in enumerate(hours)
        ],
        "silver_jobs": [{"cluster_id": "c", "job_key": key, "user_id": subject} for key in range(len(hours))],
    }
