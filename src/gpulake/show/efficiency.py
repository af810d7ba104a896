"""The efficiency card: what was held, what became of it, what it cost, and what would save most."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Any

from gpulake.core.config import Config, GpuType
from gpulake.core.errors import LakeError, UsageError, choice_hint
from gpulake.lake import Reader
from gpulake.show import advice, efficiency_sql
from gpulake.show.page import need

HELD = ("productive", "under_used", "idle", "lost", "unobserved")
BUCKETS = (*HELD, "unallocated", "down")
WASTED = ("under_used", "idle", "lost")
MOST_USERS = 5
MOST_JOBS = 20
MOST_NAMES = 5

Row = Mapping[str, Any]


@dataclass(frozen=True)
class Standing:
    """What one user held, and where that puts them. All amounts are GPU-hours."""

    user_id: str | None
    jobs: int
    failed_jobs: int
    held: float
    productive: float
    idle: float
    under_used: float
    lost: float
    unobserved: float
    wasted: float  # idle, under-used or lost
    waste_rank: int  # 1 wastes most
    held_rank: int


@dataclass(frozen=True)
class Sum:
    """An amount of money or energy, and the GPU-hours that it leaves out since nobody knows their price or power."""

    amount: float
    wasted: float
    without_gpu_hours: float


@dataclass(frozen=True)
class Waits:
    tasks: int
    median_seconds: float
    p95_seconds: float


@dataclass(frozen=True)
class Card:
    """All amounts are GPU-hours, unless they say otherwise."""

    user_id: str | None  # None: all users
    clusters: tuple[str, ...]
    first_day: date
    last_day: date
    capacity: float | None  # None: a user has none
    held: float
    buckets: dict[str, float]
    inferred: float  # of what was held, what rests on a begin or an end that was inferred
    jobs: int
    failed_jobs: int
    users: int  # of the clusters, whoever the card is about
    standing: Standing | None  # of the user
    money: Sum | None
    currency: str
    energy_kilowatt_hours: Sum | None
    waits: Waits | None
    advice: tuple[advice.Advice, ...]
    worst_users: tuple[Standing, ...]
    worst_jobs: tuple[dict[str, Any], ...]
    days: tuple[dict[str, Any], ...]

    @property
    def total(self) -> float:
        return self.held if self.capacity is None else self.capacity

    @property
    def wasted(self) -> float:
        return sum(self.buckets[bucket] for bucket in WASTED)


def efficiency_card(
    reader: Reader, config: Config, user: str | None = None, cluster: str | None = None, days: int | None = None
) -> Card:
    """A user's card, or that of the clusters; of the last so many days of each, or of all."""
    need(reader, efficiency_sql.NEEDED)
    _check(reader, user, cluster)
    asked: dict[str, str | int | float | None] = {"user": user, "cluster": cluster, "days": days}

    def rows(query: str, **values: str | int | float) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = reader.query(efficiency_sql.SPAN + query, **asked, **values).to_pylist()
        return found

    (span,) = rows(efficiency_sql.SPANNED)
    if not span["clusters"]:
        raise LakeError("no GPUs were held or offered yet", "land a trace that has jobs with GPUs, then: gpulake build")
    parts = rows(efficiency_sql.CLUSTER_DAYS if user is None else efficiency_sql.USER_DAYS)
    standings = rows(efficiency_sql.USERS, most=MOST_USERS)
    own = next((_standing(row) for row in standings if row["user_id"] == user), None) if user is not None else None
    shown = BUCKETS if user is None else HELD
    everyone = standings[0] if standings else {"users": 0, "all_jobs": 0, "all_failed_jobs": 0}
    return Card(
        user_id=user,
        clusters=tuple(span["clusters"]),
        first_day=span["first_dt"],
        last_day=span["last_dt"],
        capacity=_total(parts, ["capacity"]) if user is None else None,
        held=_total(parts, HELD),
        buckets={bucket: _total(parts, [bucket]) for bucket in shown},
        inferred=_total(parts, ["inferred"]),
        jobs=int(everyone["all_jobs"]) if user is None else own.jobs if own else 0,
        failed_jobs=int(everyone["all_failed_jobs"]) if user is None else own.failed_jobs if own else 0,
        users=everyone["users"],
        standing=own,
        money=_money(parts, config.gpu_types),
        currency=config.currency,
        energy_kilowatt_hours=_energy(parts, config.gpu_types),
        waits=_waits(rows(efficiency_sql.WAITS)[0]),
        advice=advice.advise(rows(efficiency_sql.ADVICE, **advice.settings(config.gpu_types))),
        worst_users=tuple(_standing(row) for row in standings if row["wasted"] > 0) if user is None else (),
        worst_jobs=tuple(rows(efficiency_sql.JOBS, most=MOST_JOBS)),
        days=tuple(_by_day(parts, shown)),
    )


def _check(reader: Reader, user: str | None, cluster: str | None) -> None:
    if cluster is not None:
        clusters = [row["cluster_id"] for row in reader.query(efficiency_sql.CLUSTERS).to_pylist()]
        if cluster not in clusters:
            raise UsageError(f"no cluster named {cluster!r}", choice_hint(cluster, clusters))
    if user is not None:
        users = [row["user_id"] for row in reader.query(efficiency_sql.USERS_KNOWN).to_pylist()]
        if user not in users:
            # There may be thousands: the nearest few will do.
            near = difflib.get_close_matches(user, users, n=MOST_NAMES, cutoff=0.0)
            raise UsageError(f"no user named {user!r}", choice_hint(user, near))


def _total(rows: Iterable[Row], columns: Sequence[str]) -> float:
    return float(sum(row[column] for row in rows for column in columns))


def _standing(row: Row) -> Standing:
    return Standing(**{name: row[name] for name in Standing.__dataclass_fields__})


def _money(parts: Sequence[Row], gpu_types: Mapping[str, GpuType]) -> Sum | None:
    """Price of what was held, and of what was wasted of it."""
    prices = {name: kind.price_per_hour for name, kind in gpu_types.items() if kind.price_per_hour >= 0}
    priced = [row for row in parts if row["gpu_type"] in prices]
    if not priced:
        return None
    return Sum(
        amount=sum(_total([row], HELD) * prices[row["gpu_type"]] for row in priced),
        wasted=sum(_total([row], WASTED) * prices[row["gpu_type"]] for row in priced),
        without_gpu_hours=_total([row for row in parts if row["gpu_type"] not in prices], HELD),
    )


def _energy(parts: Sequence[Row], gpu_types: Mapping[str, GpuType]) -> Sum | None:
    """Busy power for GPUs in use, idle power for the others: what was held by a user, or all that was up."""
    known = {name: kind for name, kind in gpu_types.items() if kind.busy_watts >= 0 and kind.idle_watts >= 0}
    powered = [row for row in parts if row["gpu_type"] in known]
    if not powered:
        return None

    def up(row: Row) -> float:
        return _total([row], HELD) + float(row.get("unallocated", 0.0))

    amount = wasted = 0.0
    for row in powered:
        kind = known[row["gpu_type"]]
        amount += row["busy"] * kind.busy_watts + (up(row) - row["busy"]) * kind.idle_watts
        wasted += max(_total([row], HELD) - row["busy"], 0.0) * kind.idle_watts
    without = sum(up(row) for row in parts if row["gpu_type"] not in known)
    return Sum(amount / 1000, wasted / 1000, without)


def _waits(row: Row) -> Waits | None:
    return Waits(row["tasks"], row["p50"], row["p95"]) if row["tasks"] else None


def _by_day(parts: Sequence[Row], shown: Sequence[str]) -> list[dict[str, Any]]:
    days: dict[date, list[Row]] = {}
    for row in parts:
        days.setdefault(row["dt"], []).append(row)
    return [{"day": day, **{bucket: _total(rows, [bucket]) for bucket in shown}} for day, rows in days.items()]
