"""The efficiency card: what was held, what became of it, what it cost, and what would save most."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Any

from gpulake.core.config import Config, GpuType
from gpulake.core.errors import LakeError, UsageError, choice_hint
from gpulake.core.gpu_models import matching, model_of
from gpulake.core.ledger import BUCKETS, HELD, LOST, SENSED, WASTED
from gpulake.core.packaged import built_tables, queries
from gpulake.lake import LakeReader
from gpulake.show import advice
from gpulake.show.observed import OBSERVED, Observed

SURELY_WASTED = ("idle", "lost_at_least")
MOST_USERS = 5
MOST_JOBS = 20
MOST_NAMES = 5
NOTES = ("lost", "lost_at_least", "inferred", "inferred_lost")
WHOSE = """(getvariable('user') IS NULL OR user_id = getvariable('user'))
    AND (getvariable('group') IS NULL OR group_id = getvariable('group'))
    AND (getvariable('account') IS NULL OR account_id = getvariable('account'))"""


def _sums(names: tuple[str, ...], form: str = "sum({0}_gpu_hours) AS {0}") -> str:
    return ", ".join(form.format(name) for name in names)


SQL = queries(
    "gpulake.show",
    "efficiency.sql",
    observed=OBSERVED,
    whose=WHOSE,
    held=_sums((*HELD, *NOTES)),
    capacity=_sums(("capacity", *BUCKETS, *NOTES)),
    ledger=_sums(("capacity", *BUCKETS, *NOTES), "sum(ledger.{0}) AS {0}"),
    wasted="""
    sum(idle_gpu_hours + lost_gpu_hours) AS wasted, sum(idle_gpu_hours + lost_at_least_gpu_hours) AS wasted_at_least""",
)
NEEDED = built_tables(SQL)

Row = Mapping[str, Any]


@dataclass(frozen=True)
class Standing:
    """What one user held, and where that puts them. All amounts are GPU-hours."""

    user_id: str | None
    jobs: int
    failed_jobs: int
    held: float
    used: float
    under_used: float
    idle: float
    failed: float
    timed_out: float
    interrupted: float
    unobserved: float
    lost: float  # at most: failed, timed out or interrupted
    lost_at_least: float
    inferred_lost: float  # of what was lost at most, what is based on inferred times
    wasted: float  # at most: idle or lost
    wasted_at_least: float
    waste_rank: int  # 1 held most idle GPU-hours; of those who held as many, wastes most
    held_rank: int


@dataclass(frozen=True)
class Money:
    """The cost of what was held, without GPU-hours of unknown price."""

    amount: float
    wasted: float  # at most: idle or lost
    wasted_at_least: float
    under_used: float
    without_gpu_hours: float
    is_listed: bool = False  # the price of a type is the catalogue's list price, and not one of the settings


@dataclass(frozen=True)
class Energy:
    """In kWh, without GPU-hours of unknown power."""

    amount: float
    unused: float  # drawn by GPUs that were held and not in use
    without_gpu_hours: float


@dataclass(frozen=True)
class Waits:
    tasks: int
    median_seconds: float
    p95_seconds: float


@dataclass(frozen=True)
class Scope:
    """Which user, group, account, cluster and days the card is about. None: all of them."""

    user: str | None = None
    group: str | None = None
    cluster: str | None = None
    days: int | None = None  # the last so many of each cluster
    first_day: date | None = None
    last_day: date | None = None
    account: str | None = None

    @property
    def is_holder(self) -> bool:
        """A user, a group or an account holds GPUs, and has no capacity."""
        return self.user is not None or self.group is not None or self.account is not None


@dataclass(frozen=True)
class Card:
    """All amounts are GPU-hours, unless they say otherwise."""

    user_id: str | None  # None: all users
    account_id: str | None  # None: all accounts
    clusters: tuple[Observed, ...]
    first_day: date
    last_day: date
    capacity: float | None  # None: a user has none
    held: float
    buckets: dict[str, float]
    sensed: float  # used, under-used or idle: a share of use is a share of this
    lost: float  # at most: failed, timed out or interrupted
    lost_at_least: float
    wasted: float  # at most: idle or lost
    wasted_at_least: float
    inferred: float  # of what was held, what is based on an inferred start or end
    inferred_lost: float  # of what was lost at most
    jobs: int
    failed_jobs: int
    users: int  # of the clusters, on every card
    standing: Standing | None  # of the user
    money: Money | None
    currency: str
    energy_kilowatt_hours: Energy | None
    waits: Waits | None
    advice: tuple[advice.Advice, ...]
    worst_users: tuple[Standing, ...]
    worst_jobs: tuple[dict[str, Any], ...]
    days: tuple[dict[str, Any], ...]

    @property
    def total(self) -> float:
        return self.held if self.capacity is None else self.capacity

    @property
    def is_unseen(self) -> bool:
        """Neither use nor loss is known, and so neither is waste."""
        return not self.sensed and not self.lost


def efficiency_card(reader: LakeReader, config: Config, scope: Scope, is_brief: bool = False) -> Card:
    """The card of a user, a group, or the clusters; a brief one has neither advice nor jobs."""
    rows = _asking(reader, scope)
    (span,) = rows(SQL["spanned"])
    if not span["clusters"]:
        raise LakeError("no GPUs were held or offered yet", "land a trace that has jobs with GPUs, then: gpulake build")
    parts = rows(SQL["holder_days"] if scope.is_holder else SQL["cluster_days"])
    is_ranked = scope.user is not None or not is_brief
    standings = rows(SQL["users"], most=0 if is_brief else MOST_USERS) if is_ranked else []
    standing = next(
        (_standing(row) for row in standings if scope.user is not None and row["user_id"] == scope.user), None
    )
    shown = HELD if scope.is_holder else BUCKETS
    (counts,) = rows(SQL["jobs_held"])
    return Card(
        user_id=scope.user,
        account_id=scope.account,
        clusters=tuple(Observed(**row) for row in rows(SQL["observed"])),
        first_day=span["first_dt"],
        last_day=span["last_dt"],
        capacity=None if scope.is_holder else _total(parts, ["capacity"]),
        held=_total(parts, HELD),
        buckets={bucket: _total(parts, [bucket]) for bucket in shown},
        sensed=_total(parts, SENSED),
        lost=_total(parts, LOST),
        lost_at_least=_total(parts, ["lost_at_least"]),
        wasted=_total(parts, WASTED),
        wasted_at_least=_total(parts, SURELY_WASTED),
        inferred=_total(parts, ["inferred"]),
        inferred_lost=_total(parts, ["inferred_lost"]),
        jobs=counts["jobs"],
        failed_jobs=counts["failed_jobs"],
        users=standings[0]["users"] if standings else counts["users"],
        standing=standing,
        money=money_of(parts, config.gpu_types),
        currency=config.currency,
        energy_kilowatt_hours=_energy(parts, config.gpu_types),
        waits=_waits(rows(SQL["waits"] + (SQL["waits_of_holder"] if scope.is_holder else ""))[0]),
        advice=() if is_brief else advise(reader, config, scope),
        worst_users=tuple(_standing(row) for row in standings if row["wasted"] > 0) if scope.user is None else (),
        worst_jobs=() if is_brief else tuple(rows(SQL["jobs"], most=MOST_JOBS)),
        days=tuple(_by_day(parts, shown)),
    )


def advise(reader: LakeReader, config: Config, scope: Scope) -> tuple[advice.Advice, ...]:
    """What would have saved most of it."""
    query = SQL["advice"]
    if scope.is_holder:
        # The attempts of one user or group fit into memory; those of everyone do not.
        query = query.replace("NOT MATERIALIZED", "MATERIALIZED")
    rows = _asking(reader, scope)
    names = [row["gpu_type"] for row in rows(SQL["gpu_types"])]
    return advice.advise(rows(query, **advice.settings(names, config.gpu_types)))


def _asking(reader: LakeReader, scope: Scope) -> Callable[..., list[dict[str, Any]]]:
    reader.need(NEEDED)
    asked: dict[str, str | int | float | None] = {
        "user": scope.user,
        "group": scope.group,
        "account": scope.account,
        "cluster": scope.cluster,
        "days": scope.days,
        "from": str(scope.first_day) if scope.first_day else None,
        "to": str(scope.last_day) if scope.last_day else None,
    }

    def rows(query: str, **values: str | int | float) -> list[dict[str, Any]]:
        return reader.rows(SQL["span"] + query, **asked, **values)

    error = unknown(reader, scope)
    if error:
        raise error
    return rows


def unknown(reader: LakeReader, scope: Scope) -> UsageError | None:
    """The error if the lake has no cluster, user, group or account of that name."""
    if scope.cluster is not None:
        clusters = [row["cluster_id"] for row in reader.rows(SQL["clusters"])]
        if scope.cluster not in clusters:
            return UsageError(f"no cluster named {scope.cluster!r}", choice_hint(scope.cluster, clusters))
    for kind, name in (("user", scope.user), ("group", scope.group), ("account", scope.account)):
        asked = {"user": None, "group": None, "account": None, kind: name}
        if name is not None and not reader.rows(SQL["is_known"], **asked)[0]["is_known"]:
            alike = reader.rows(SQL[f"alike_{kind}"], most=MOST_NAMES, **asked)
            return UsageError(f"no {kind} named {name!r}", choice_hint(name, [row["name"] for row in alike]))
    return None


def _total(rows: Iterable[Row], columns: Sequence[str]) -> float:
    return float(sum(row[column] for row in rows for column in columns))


def _standing(row: Row) -> Standing:
    return Standing(**{name: row[name] for name in Standing.__dataclass_fields__})


def money_of(parts: Sequence[Row], gpu_types: Mapping[str, GpuType]) -> Money | None:
    """Price of what was held, and of what became of it."""
    prices = advice.prices_of({row["gpu_type"] for row in parts}, gpu_types)
    priced = [row for row in parts if row["gpu_type"] in prices]
    if not priced:
        return None

    def price(columns: Sequence[str]) -> float:
        return sum(_total([row], columns) * prices[row["gpu_type"]] for row in priced)

    return Money(
        amount=price(HELD),
        wasted=price(WASTED),
        wasted_at_least=price(SURELY_WASTED),
        under_used=price(["under_used"]),
        without_gpu_hours=_total([row for row in parts if row["gpu_type"] not in prices], HELD),
        is_listed=any((model := model_of(name)) and model.usd_per_hour == price for name, price in prices.items()),
    )


def _energy(parts: Sequence[Row], gpu_types: Mapping[str, GpuType]) -> Energy | None:
    """Busy power for GPUs in use, idle power for the others: what was held by a user, or all that was up."""
    kinds = ((name, matching(name, gpu_types)) for name in {row["gpu_type"] for row in parts})
    known = {name: kind for name, kind in kinds if kind and kind.busy_watts >= 0 and kind.idle_watts >= 0}
    powered = [row for row in parts if row["gpu_type"] in known]
    if not powered:
        return None

    def up(row: Row) -> float:
        return _total([row], HELD) + float(row.get("unallocated", 0.0)) + float(row.get("unknown", 0.0))

    amount = unused = 0.0
    for row in powered:
        kind = known[row["gpu_type"]]
        amount += row["busy"] * kind.busy_watts + (up(row) - row["busy"]) * kind.idle_watts
        unused += max(_total([row], HELD) - row["busy"], 0.0) * kind.idle_watts
    without = sum(up(row) for row in parts if row["gpu_type"] not in known)
    return Energy(amount / 1000, unused / 1000, without)


def _waits(row: Row) -> Waits | None:
    return Waits(row["tasks"], row["p50"], row["p95"]) if row["tasks"] else None


def _by_day(parts: Sequence[Row], shown: Sequence[str]) -> list[dict[str, Any]]:
    days: dict[date, list[Row]] = {}
    for row in parts:
        days.setdefault(row["dt"], []).append(row)
    return [{"day": day, **{bucket: _total(rows, [bucket]) for bucket in shown}} for day, rows in days.items()]
