"""The findings of a build: where GPU-hours went, what nodes and watches reported, who held idle GPUs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from gpulake.core.ledger import HELD, LOST, SENSED
from gpulake.core.packaged import queries
from gpulake.core.types import Finding
from gpulake.core.words import quantity, share
from gpulake.detect.faults import node_faults
from gpulake.lake import Staging

TABLE = "findings"
MOST_HOLDERS = 10
FIRST_HOLDERS = 3  # come before all else
LEAST_IDLE_GPU_HOURS = 1.0
# If nothing ends for that long at the begin of observation, the jobs that ended then have not landed.
LEAST_SILENT_HOURS = 24
LEAST_SILENT_RATIO = 0.05

SQL = queries("gpulake.detect", "queries.sql")
Row = dict[str, Any]


def find(
    staging: Staging, watched: Sequence[Finding], shrunken: Mapping[str, tuple[int, int]] | None = None
) -> list[Finding]:
    """Writes the findings, those of watches among them, most important first. `shrunken`: the rows that a table had
    before, and has now."""
    days = staging.read(SQL["flagged_days"]).to_pylist()
    holders = list(_idle_holders(staging.read(SQL["holders"]).to_pylist()))
    findings = [
        *_fewer_rows(shrunken or {}),
        *holders[:FIRST_HOLDERS],
        *_ledger(staging.read(SQL["ledger"]).to_pylist()),
        *node_faults(staging.read),
        *(one for one in watched if one.severity != "info"),
        *holders[FIRST_HOLDERS:],
        *(one for one in watched if one.severity == "info"),
        *_flagged_days(days),
    ]
    staging.write(TABLE, [{"rank": rank, **asdict(finding)} for rank, finding in enumerate(findings, start=1)])
    return findings


def _fewer_rows(shrunken: Mapping[str, tuple[int, int]]) -> Iterator[Finding]:
    """Tables with fewer rows than in the build before."""
    for table, (before, now) in sorted(shrunken.items()):
        yield Finding(
            kind="fewer_rows",
            subject=table,
            headline=f"{table} has {now:,} rows; the build before was made of {before:,}",
            detail="a landing was undone or replaced, a source was left out, or files of the lake are damaged",
            value=before - now,
            unit="rows",
            severity="warning",
            remedy="compare what holds now (gpulake land --list) with what should; look with: gpulake doctor --deep",
        )


def _ledger(rows: list[Row]) -> Iterator[Finding]:
    """Where the capacity of each cluster went, and what is not known of it."""
    for row in rows:
        cluster, hours = row["cluster_id"], dict(row["hours"])
        capacity = sum(hours.values())
        name = f"{cluster} (generated)" if row["is_generated"] else cluster
        held = sum(hours[bucket] for bucket in HELD)
        time = f"from {row['observed_from']:%Y-%m-%d %H:%M} to {row['observed_until']:%Y-%m-%d %H:%M} UTC"
        if row["unknown_demand_ratio"]:
            yield _missing_demand(cluster, time, row["unknown_demand_ratio"], share(hours["unknown"], capacity))
        yield from _missing_begin(row)
        if not held:
            continue
        yield Finding(
            kind="ledger",
            subject=cluster,
            headline=(
                f"{share(held, capacity)} of the {capacity:,.0f} GPU-hours of {name} {time} were held, "
                f"{_use(hours, held)}"
            ),
            detail=(
                f"of what was held {hours['idle'] / held:.0%} was idle, {hours['under_used'] / held:.0%} under-used, "
                f"{_lost(row, held)}, {hours['unobserved'] / held:.0%} without a sensor; see: gpulake report efficiency"
            ),
            value=held / capacity,
            unit="ratio",
        )


def _missing_demand(cluster: str, time: str, ratio: float, unknown: str) -> Finding:
    return Finding(
        kind="missing_demand",
        subject=cluster,
        headline=f"what {ratio:.0%} of the attempts of {cluster} asked for is not known",
        detail=(
            f"so it is unknown whether {unknown} of its capacity {time} was held, and who wasted what; "
            "land the table that has their requests (PAI: pai_task_table)"
        ),
        value=ratio,
        unit="ratio",
        cluster_id=cluster,
    )


def _missing_begin(row: Row) -> Iterator[Finding]:
    """A listing from a time on (sacct -S) has the jobs that ran then, but not those that had ended by then."""
    first_end = row["first_ended_at"]
    if first_end is None or row["observed_basis"] in ("settings", "pulled"):
        return
    silent = (first_end - row["observed_from"]).total_seconds() / 3600
    whole = (row["observed_until"] - row["observed_from"]).total_seconds() / 3600
    if silent < max(LEAST_SILENT_HOURS, LEAST_SILENT_RATIO * whole):
        return
    cluster = row["cluster_id"]
    yield Finding(
        kind="missing_begin",
        subject=cluster,
        headline=f"no job of {cluster} ended in its first {silent:,.0f} hours: jobs that did seem not to have landed",
        detail=(
            f"so its capacity before {first_end:%Y-%m-%d %H:%M} UTC counts as unallocated; land the jobs that ended "
            f"earlier, or set observed_from of [clusters.{cluster}] to when the accounting is complete (sacct -S)"
        ),
        value=silent,
        unit="hours",
        cluster_id=cluster,
    )


def _use(hours: Mapping[str, float], held: float) -> str:
    """The used share of the GPU-hours with sensors."""
    sensed = sum(hours[bucket] for bucket in SENSED)
    if not sensed:
        return "and no sensor saw what they did"
    return f"and {hours['used'] / sensed:.0%} of the {sensed / held:.0%} of those that sensors saw were used"


def _lost(row: Row, held: float) -> str:
    """Upper bound, or bounds, of the lost share; and how much of it is inferred."""
    most, least, inferred = (
        sum(dict(row[name])[bucket] for bucket in LOST) for name in ("hours", "at_least", "inferred")
    )
    if not most:
        return "none lost"
    bounds = f"{share(most, held)} lost" if least >= most else f"{share(least, held)} to {share(most, held)} lost"
    return bounds + (f" ({inferred / most:.0%} of it inferred)" if inferred else "")


def _idle_holders(users: list[Row]) -> Iterator[Finding]:
    for user in users[:MOST_HOLDERS]:
        if user["idle"] < LEAST_IDLE_GPU_HOURS:
            return
        name = user["user_id"]
        yield Finding(
            kind="idle_gpus",
            subject=name,
            headline=f"user {name} held {user['idle']:,.0f} idle GPU-hours",
            detail=(
                f"{user['idle'] / user['sensed']:.0%} of the {user['sensed']:,.0f} GPU-hours that sensors saw; "
                f"{user['idle'] / user['all_idle']:.0%} of all idle GPU-hours of {user['cluster_id']}; "
                f"{user['under_used']:,.0f} more were under-used"
            ),
            value=user["idle"],
            unit="GPU-hours",
            cluster_id=user["cluster_id"],
        )


def _flagged_days(days: list[Row]) -> Iterator[Finding]:
    """The forest scores a day over all clusters, so a day is one finding."""
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
            why = "the forest always flags 5 % of the days; look at the plot before you act"
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
