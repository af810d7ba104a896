"""What a person should know first: where GPU-hours went, what the watches found, who held idle GPUs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

from gpulake.core.types import Finding
from gpulake.detect.watching import watch
from gpulake.lake import Staging

TABLE = "findings"
MOST_HOLDERS = 3
LEAST_IDLE_GPU_HOURS = 1.0

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
DAYS = """
SELECT daily.*, dayname(daily.dt) AS weekday, scored.anomaly_flag, scored.anomaly_score
FROM gold_cluster_util_daily AS daily
LEFT JOIN gold_cluster_util_daily_scored AS scored USING (dt)
ORDER BY dt
"""
Row = dict[str, Any]


def find(staging: Staging) -> list[Finding]:
    """Writes the findings, most important first."""
    days = staging.read(DAYS).to_pylist()
    watched = watch(staging.read)
    found = [
        *_ledger(staging.read(LEDGER).to_pylist()),
        *(one for one in watched if one.severity != "info"),
        *_idle_holders(staging.read(HOLDERS).to_pylist()),
        *(one for one in watched if one.severity == "info"),
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


def _name(day: Row) -> str:
    return f"{day['weekday']}, {day['dt']}"
