"""What a person should know first: where GPU-hours went, what the watches found, who held idle GPUs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict
from typing import Any

from gpulake.core.types import Finding
from gpulake.core.words import NO_NAME, quantity, share
from gpulake.detect.watching import watch
from gpulake.lake import Staging

TABLE = "findings"
MOST_HOLDERS = 3
LEAST_IDLE_GPU_HOURS = 1.0

LEDGER = "SELECT cluster_id, bucket, gpu_hours FROM gold_ledger_buckets ORDER BY cluster_id, rank"
HOLDERS = """
WITH days AS (SELECT *, idle_gpu_hours + under_used_gpu_hours AS unused_gpu_hours FROM gold_user_gpu_usage_daily)
SELECT
    cluster_id, user_id, sum(unused_gpu_hours) AS unused, sum(productive_gpu_hours + unused_gpu_hours) AS seen,
    sum(sum(unused_gpu_hours)) OVER (PARTITION BY cluster_id) AS all_unused
FROM days
GROUP BY cluster_id, user_id
ORDER BY unused DESC, cluster_id, user_id
"""
DAYS = """
SELECT daily.*, dayname(daily.dt) AS weekday, scored.anomaly_flag, scored.anomaly_score
FROM gold_cluster_util_daily AS daily
LEFT JOIN gold_cluster_util_daily_scored AS scored USING (dt)
ORDER BY dt, daily.cluster_id
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
                f"{share(held, capacity)} of the {capacity:,.0f} GPU-hours of {cluster} were held, "
                f"{_known(hours, held)}"
            ),
            detail=(
                f"of what was held {wasted['idle']:.0%} was empty, {wasted['under_used']:.0%} under-used, "
                f"{wasted['lost']:.0%} lost to failures, {hours['unobserved'] / held:.0%} without a sensor; "
                "see: gpulake report efficiency"
            ),
            value=hours["productive"] / capacity,
            unit="ratio",
        )


def _known(hours: Mapping[str, float], held: float) -> str:
    """What was made of them, if that is known: without a sensor nobody can say that they were not productive."""
    seen = hours["productive"] + hours["idle"] + hours["under_used"]
    if not seen and hours["unobserved"]:
        return "and no sensor saw what they did"
    return f"and {hours['productive'] / held:.0%} of those were productive"


def _idle_holders(users: list[Row]) -> Iterator[Finding]:
    for user in users[:MOST_HOLDERS]:
        if user["unused"] < LEAST_IDLE_GPU_HOURS:
            return
        name = NO_NAME if user["user_id"] is None else user["user_id"]
        of_all = user["unused"] / user["all_unused"]
        yield Finding(
            kind="idle_gpus",
            subject=name,
            headline=f"user {name} held {user['unused']:,.0f} idle GPU-hours",
            detail=(
                f"{user['unused'] / user['seen']:.0%} of the {user['seen']:,.0f} GPU-hours that sensors saw; "
                f"{of_all:.0%} of all idle GPU-hours of {user['cluster_id']}"
            ),
            value=user["unused"],
            unit="GPU-hours",
            cluster_id=user["cluster_id"],
        )


def _flagged_days(days: list[Row]) -> Iterator[Finding]:
    """The forest's score is of no one cluster, so a day is told once, with all clusters that have it."""
    flagged: dict[Any, list[Row]] = {}
    for day in days:
        if day["anomaly_flag"]:
            flagged.setdefault(day["dt"], []).append(day)
    for same in sorted(flagged.values(), key=lambda same: same[0]["anomaly_score"]):
        day = max(same, key=lambda one: one["coverage_ratio"] or 0.0)
        if all(one["is_poorly_covered"] for one in same):
            seen = day["coverage_ratio"] or 0.0
            why = f"only {seen:.1%} of capacity was observed: an edge of the data, not an incident"
        else:
            why = "the forest is told to flag 5 % of the days, whatever they are; look at the plot before you act"
        yield Finding(
            kind="flagged_day",
            subject=str(day["dt"]),
            headline=f"{_name(day)} is flagged by the reference's forest (score {day['anomaly_score']:.3f})",
            detail=f"corrected GPU utilisation {_utilisation(same)}; {why}",
            value=day["anomaly_score"],
            unit="score",
            day=str(day["dt"]),
        )


def _utilisation(days: list[Row]) -> str:
    if len(days) == 1:
        return quantity(days[0]["gpu_util_ratio"], "ratio")
    return ", ".join(f"{quantity(day['gpu_util_ratio'], 'ratio')} of {day['cluster_id']}" for day in days)


def _name(day: Row) -> str:
    return f"{day['weekday']}, {day['dt']}"
