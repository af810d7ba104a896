"""What a person should know first: who held idle GPUs, which days were abnormal and why."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

import numpy as np

from gpulake.core.types import Finding
from gpulake.lake import Staging

TABLE = "findings"
MOST_HOLDERS = 3
LEAST_IDLE_GPU_HOURS = 1.0
# Robust z-score from which a day stands out; 1.4826 makes the MAD of a normal distribution its deviation.
UNUSUAL_UTILISATION = 8.0
UNUSUAL_FAILURES = 5.0
NORMAL_MAD = 1.4826
FEWEST_DAYS = 7
LEAST_FAILED_JOBS = 10

LEDGER = "SELECT cluster_id, bucket, gpu_hours FROM gold_ledger_buckets ORDER BY cluster_id, rank"
HOLDERS = """
WITH days AS (SELECT *, idle_gpu_hours + under_used_gpu_hours AS unused_gpu_hours FROM gold_user_gpu_usage_daily)
SELECT
    user_id, sum(unused_gpu_hours) AS unused,
    sum(productive_gpu_hours + unused_gpu_hours) AS seen, sum(sum(unused_gpu_hours)) OVER () AS all_unused
FROM days
GROUP BY user_id
ORDER BY unused DESC, user_id
"""
# A crowd of jobs that hold GPUs and use next to none of them, in days that it fills.
EMPTY_HANDS = """
WITH days AS (
    SELECT *, idle_gpu_hours / sum(idle_gpu_hours) OVER (PARTITION BY dt) AS day_ratio
    FROM gold_user_gpu_usage_daily
    WHERE idle_gpu_hours > 0
)
SELECT user_id, min(dt) AS first_dt, count(*) AS days, sum(jobs) AS jobs, sum(idle_gpu_hours) AS idle
FROM days
WHERE productive_gpu_hours + under_used_gpu_hours < 0.01 * idle_gpu_hours AND day_ratio >= 0.1 AND jobs >= 20
GROUP BY user_id
ORDER BY idle DESC, user_id
"""
DAYS = """
SELECT daily.*, dayname(daily.dt) AS weekday, scored.anomaly_flag, scored.anomaly_score
FROM gold_cluster_util_daily AS daily
LEFT JOIN gold_cluster_util_daily_scored AS scored USING (dt)
ORDER BY dt
"""
JOBS = "SELECT *, dayname(dt) AS weekday FROM gold_jobs_daily ORDER BY dt"
Row = dict[str, Any]


def find(staging: Staging) -> list[Finding]:
    """Writes the findings, most important first."""
    days = staging.read(DAYS).to_pylist()
    found = [
        *_ledger(staging.read(LEDGER).to_pylist()),
        *_empty_hands(staging.read(EMPTY_HANDS).to_pylist()),
        *_idle_holders(staging.read(HOLDERS).to_pylist()),
        *_failure_bursts(staging.read(JOBS).to_pylist()),
        *_unusual_days(days),
        *_flagged_days(days),
    ]
    staging.write(TABLE, [{"rank": rank, **asdict(finding)} for rank, finding in enumerate(found, start=1)])
    return found


def _ledger(rows: list[Row]) -> Iterator[Finding]:
    """Where the capacity of each cluster went."""
    clusters: dict[str, dict[str, float]] = {}
    for row in rows:
        clusters.setdefault(row["cluster_id"], {})[row["bucket"]] = row["gpu_hours"]
    for cluster, hours in clusters.items():
        capacity = sum(hours.values())
        held = capacity - hours["down"] - hours["unallocated"]
        if not held:
            continue
        wasted = {name: hours[name] / held for name in ("idle", "under_used", "lost")}
        yield Finding(
            kind="ledger",
            subject=cluster,
            headline=(
                f"{held / capacity:.0%} of the {capacity:,.0f} GPU-hours of {cluster} were held, "
                f"and {hours['productive'] / held:.0%} of those were productive"
            ),
            detail=(
                f"of what was held {wasted['idle']:.0%} was empty, {wasted['under_used']:.0%} under-used, "
                f"{wasted['lost']:.0%} lost to failures, {hours['unobserved'] / held:.0%} without a sensor; "
                "see: gpulake report efficiency"
            ),
            value=hours["productive"] / capacity,
            unit="ratio",
        )


def _empty_hands(users: list[Row]) -> Iterator[Finding]:
    for user in users:
        yield Finding(
            kind="empty_gpus",
            subject=user["user_id"],
            headline=f"user {user['user_id']} held {user['idle']:,.0f} GPU-hours empty from {user['first_dt']}",
            detail=(
                f"{user['jobs']:,.0f} jobs on {user['days']} days used less than 1 % of the GPUs that they held, "
                "and were at least a tenth of the cluster's idle time on each"
            ),
            value=user["idle"],
            unit="GPU-hours",
            day=str(user["first_dt"]),
        )


def _idle_holders(users: list[Row]) -> Iterator[Finding]:
    for user in users[:MOST_HOLDERS]:
        if user["unused"] < LEAST_IDLE_GPU_HOURS:
            return
        share = user["unused"] / user["all_unused"]
        yield Finding(
            kind="idle_gpus",
            subject=user["user_id"],
            headline=f"user {user['user_id']} held {user['unused']:,.0f} idle GPU-hours",
            detail=(
                f"{user['unused'] / user['seen']:.0%} of the {user['seen']:,.0f} GPU-hours that sensors saw; "
                f"{share:.0%} of all idle GPU-hours of the cluster"
            ),
            value=user["unused"],
            unit="GPU-hours",
        )


def _failure_bursts(days: list[Row]) -> Iterator[Finding]:
    usual, deviation = _usual([day["failed_ratio"] for day in days])
    for day in days:
        strength = (day["failed_ratio"] - usual) / deviation
        if day["failed_jobs"] >= LEAST_FAILED_JOBS and strength > UNUSUAL_FAILURES:
            yield Finding(
                kind="failure_burst",
                subject=str(day["dt"]),
                headline=f"{day['failed_ratio']:.0%} of the jobs that ended on {_name(day)} failed",
                detail=f"{day['failed_jobs']:,} of {day['ended_jobs']:,} jobs; on a usual day {usual:.0%}",
                value=day["failed_ratio"],
                unit="ratio",
                day=str(day["dt"]),
            )


def _unusual_days(days: list[Row]) -> Iterator[Finding]:
    """Days of good coverage whose corrected utilisation is far from the usual."""
    covered = [day for day in days if not day["is_poorly_covered"] and day["gpu_util_ratio"] is not None]
    usual, deviation = _usual([day["gpu_util_ratio"] for day in covered])
    for day in covered:
        strength = (day["gpu_util_ratio"] - usual) / deviation
        if abs(strength) > UNUSUAL_UTILISATION:
            side = "above" if strength > 0 else "below"
            ratio = day["gpu_util_ratio"]
            yield Finding(
                kind="unusual_day",
                subject=str(day["dt"]),
                headline=f"on {_name(day)} GPU utilisation was {ratio:.1%}, far {side} the usual {usual:.1%}",
                detail=f"{abs(strength):.1f} robust deviations; {day['coverage_ratio']:.0%} of capacity observed",
                value=ratio,
                unit="ratio",
                day=str(day["dt"]),
            )


def _flagged_days(days: list[Row]) -> Iterator[Finding]:
    flagged = [day for day in days if day["anomaly_flag"]]
    for day in sorted(flagged, key=lambda day: day["anomaly_score"]):
        if day["is_poorly_covered"]:
            why = f"only {day['coverage_ratio']:.1%} of capacity was observed: an edge of the data, not an incident"
        else:
            why = "the forest is told to flag 5 % of the days, whatever they are; look at the plot before you act"
        yield Finding(
            kind="flagged_day",
            subject=str(day["dt"]),
            headline=f"{_name(day)} is flagged by the reference's forest (score {day['anomaly_score']:.3f})",
            detail=f"corrected GPU utilisation {day['gpu_util_ratio'] or 0:.1%}; {why}",
            value=day["anomaly_score"],
            unit="score",
            day=str(day["dt"]),
        )


def _usual(values: list[float]) -> tuple[float, float]:
    """Median and robust deviation; with too few days, nothing stands out."""
    if len(values) < FEWEST_DAYS:
        return 0.0, float("inf")
    median = float(np.median(values))
    deviation = NORMAL_MAD * float(np.median(np.abs(np.array(values) - median)))
    return median, deviation or float("inf")


def _name(day: Row) -> str:
    return f"{day['weekday']}, {day['dt']}"
