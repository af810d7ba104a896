"""docs/ledger.md: each GPU-hour in exactly one of ten buckets, by machine and hour, and the sums of that."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

from oracle.deaths import Outage
from oracle.facts import Facts
from oracle.holdings import Holding, all_holdings
from oracle.observing import Hour, hours, window
from oracle.outages import Capacity, capacity, outages, place_of, unknown_hours
from oracle.sampling import LEAST_EXCESS, held_when_sampled_hours, in_use_hours

HELD = ("idle", "under_used", "failed", "timed_out", "interrupted", "unobserved", "used")
LOST_BUCKETS = ("failed", "timed_out", "interrupted")
BUCKETS = ("down", "unknown", "unallocated", *HELD)
Amounts = dict[str, float]


@dataclass
class Claim:
    """What one attempt held of one machine in one hour, as it was claimed."""

    holding: Holding
    machine: str | None
    hour: Hour
    amounts: Amounts


@dataclass
class Book:
    """A cluster and all that is worked out of it."""

    facts: Facts
    observed_from: int
    observed_until: int
    observed_basis: str
    hours: list[Hour]
    holdings: list[Holding]
    capacity: dict[str, Capacity]
    outages: list[Outage]
    claims: list[Claim]
    machine_hours: dict[tuple[str, int], Amounts]
    shrinking: dict[tuple[str, int], float]


def make_book(facts: Facts) -> Book:
    since, until, basis = window(facts)
    all_hours = hours(facts, since, until)
    holdings = all_holdings(facts, until)
    there = capacity(facts, holdings)
    claims = [claim for holding in holdings if holding.gpus > 0 for claim in _claims(facts, holding, all_hours)]
    by_place: dict[tuple[str | None, int], list[Claim]] = defaultdict(list)
    for claim in claims:
        by_place[claim.machine, claim.hour.started].append(claim)
    down = outages(facts, all_hours, set(by_place), there)
    book = Book(facts, since, until, basis, all_hours, holdings, there, down, claims, {}, {})
    is_all_unknown = unknown_demand_ratio(facts) > 0.5
    for machine in there:
        unknown = unknown_hours(facts, all_hours, machine)
        first = there[machine].counted_from
        for hour in all_hours:
            if first is not None and first >= hour.started + 3600:
                continue
            key = machine, hour.started
            book.machine_hours[key] = _machine_hour(
                book, machine, hour, by_place[key], is_all_unknown or hour.started in unknown
            )
    return book


def _claims(facts: Facts, holding: Holding, all_hours: list[Hour]) -> list[Claim]:
    found = []
    for hour in all_hours:
        if holding.span is None or hour.until <= holding.span[0] or hour.since >= holding.span[1]:
            continue
        amounts = amounts_within(holding, hour.since, hour.until)
        if amounts["held"] > 0:
            found.append(Claim(holding, place_of(facts, holding.attempt.machine), hour, amounts))
    return found


def amounts_within(holding: Holding, since: int, until: int) -> Amounts:
    """GPU-hours of an attempt between two moments, by bucket, with what of them is inferred."""
    amounts: Amounts = dict.fromkeys(
        (*HELD, "held", "lost", "lost_at_least", "inferred", "inferred_lost", "sensor"), 0.0
    )
    if holding.span is None:
        return amounts
    first, last = max(since, holding.span[0]), min(until, holding.span[1])
    if last <= first:
        return amounts
    amounts["held"] = holding.gpus * (last - first) / 3600
    lost_from = last if holding.lost_from is None else min(max(holding.lost_from, first), last)
    kept = holding.gpus * (lost_from - first) / 3600
    lost = holding.gpus * (last - lost_from) / 3600
    if holding.use_bucket == "used":
        share = min(1.0, (holding.attempt.used_gpus or 0.0) / holding.gpus)
        amounts["used"] = kept * share
        amounts["under_used"] = kept - amounts["used"]
    else:
        amounts[holding.use_bucket] = kept
    if lost:
        amounts[holding.bucket] = lost
        amounts["lost"] = lost
        amounts["lost_at_least"] = lost if holding.has_checkpoint else 0.0
    if holding.is_inferred:
        amounts["inferred"] = amounts["held"]
        amounts["inferred_lost"] = lost
    return amounts


def add(total: Amounts, amounts: Amounts, times: float = 1.0) -> None:
    for name, amount in amounts.items():
        total[name] = total.get(name, 0.0) + amount * times


def _machine_hour(book: Book, machine: str, hour: Hour, claims: list[Claim], is_unknown: bool) -> Amounts:
    gpus = book.capacity[machine].gpus
    row: Amounts = dict.fromkeys((*BUCKETS, "held", "lost", "lost_at_least", "inferred", "inferred_lost"), 0.0)
    row["capacity"] = gpus * hour.length
    mine = [one for one in book.outages if one.machine == machine]
    by_basis = {
        basis: sum(gpus * hour.overlap(one.started, one.ended) for one in mine if one.basis == basis)
        for basis in ("recorded", "reported", "died", "silent")
    }
    claimed = sum(claim.amounts["held"] for claim in claims)
    # What jobs hold of a machine that the scheduler withdraws is not down.
    certain = by_basis["recorded"] + by_basis["died"]
    withdrawn = min(by_basis["reported"], max(0.0, row["capacity"] - certain - claimed))
    row["down"] = certain + withdrawn
    row["recorded_down"] = by_basis["recorded"] + withdrawn
    is_unknown = is_unknown or by_basis["silent"] > 0
    # All claims of that machine and hour shrink alike, to what it has less what was down.
    available = max(0.0, row["capacity"] - row["down"])
    times = min(1.0, available / claimed) if claimed > 0 else 1.0
    book.shrinking[machine, hour.started] = times
    row["overcommitted"] = max(0.0, claimed - available)
    for claim in claims:
        add(row, claim.amounts, times)
    left = max(0.0, row["capacity"] - row["down"] - row["held"])
    if is_unknown:
        row["unknown"] += left
        return row
    # What is in use beyond what jobs hold, in the hour and when it was sampled, has an unknown holder.
    sampled = book.facts.sampled.get(machine)
    if sampled is not None:
        held = [(one.gpus, *one.span) for one in book.holdings
                if one.span is not None and place_of(book.facts, one.attempt.machine) == machine]  # fmt: skip
        when_sampled = held_when_sampled_hours(sampled, held, hour.started, hour.started + 3600)
        in_use = in_use_hours(sampled, hour.started, hour.started + 3600)
        excess = in_use * hour.length - max(claimed, when_sampled * hour.length)
        if excess > LEAST_EXCESS * row["capacity"]:
            row["unknown"] += min(excess, left)
            left -= min(excess, left)
    row["unallocated"] += left
    return row


def unknown_demand_ratio(facts: Facts) -> float:
    """Share of attempts, waiting ones aside, of which nobody knows how many GPUs they asked for."""
    ran = [attempt for attempt in facts.attempts if attempt.status != "waiting"]
    return sum(attempt.gpus is None for attempt in ran) / len(ran) if ran else 0.0


def gpu_type_of(book: Book, machine: str) -> str:
    return book.capacity[machine].gpu_type or "unknown"


def hourly(book: Book) -> dict[tuple[object, ...], Amounts]:
    """By hour and GPU type."""
    found: dict[tuple[object, ...], Amounts] = defaultdict(dict)
    for (machine, started), row in book.machine_hours.items():
        add(found[started, gpu_type_of(book, machine)], row)
    return found


def daily(book: Book) -> dict[tuple[object, ...], Amounts]:
    """By day, GPU type, user, group, account and workload; what nobody held is in a row without a user."""
    days = {hour.started: hour.day for hour in book.hours}
    found: dict[tuple[object, ...], Amounts] = defaultdict(dict)
    for (machine, started), row in book.machine_hours.items():
        nobodys = {name: row[name] for name in ("down", "unknown", "unallocated")}
        add(found[days[started], gpu_type_of(book, machine), None, None, None, None], nobodys)
    for claim in book.claims:
        if claim.machine in book.capacity:
            job = claim.holding.attempt.job
            whose = (job.user or "unknown", job.group, job.account, job.workload)
            key = (claim.hour.day, gpu_type_of(book, claim.machine), *whose)
            add(found[key], claim.amounts, book.shrinking[claim.machine, claim.hour.started])
    for amounts in found.values():
        amounts["capacity"] = sum(amounts.get(name, 0.0) for name in BUCKETS)
    return found


def _more(bucket: str, total: Amounts, known_lost: Amounts) -> float:
    """What may belong to a bucket beside its own hours."""
    more = 0.0 if bucket == "unknown" else total.get("unknown", 0.0)
    if bucket in ("idle", "under_used", "used"):
        more += total.get("unobserved", 0.0)
    if bucket in ("idle", "under_used", "used", "unobserved"):
        more += sum(total.get(name, 0.0) - known_lost.get(name, 0.0) for name in LOST_BUCKETS)
    return more


def buckets(book: Book) -> dict[tuple[object, ...], dict[str, float | None]]:
    """One per bucket, with what it may be at least and at most."""
    total: Amounts = {}
    for row in book.machine_hours.values():
        add(total, row)
    inferred: Amounts = {"down": total["down"] - total["recorded_down"]}
    known_lost: Amounts = {}
    for claim in book.claims:
        if claim.machine in book.capacity:
            times = book.shrinking[claim.machine, claim.hour.started]
            if claim.holding.is_inferred:
                add(inferred, {name: claim.amounts[name] for name in HELD}, times)
            if claim.holding.has_checkpoint:
                add(known_lost, {name: claim.amounts[name] for name in LOST_BUCKETS}, times)
    sensed = sum(total.get(name, 0.0) for name in ("idle", "under_used", "used"))
    found: dict[tuple[object, ...], dict[str, float | None]] = {}
    for bucket in BUCKETS:
        hours_in_it = total.get(bucket, 0.0)
        least = known_lost.get(bucket, 0.0) if bucket in LOST_BUCKETS else hours_in_it
        most = hours_in_it + _more(bucket, total, known_lost)
        has_basis = bucket in HELD or bucket == "down"
        is_sensed = bucket in ("idle", "under_used", "used")
        found[(bucket,)] = {
            "gpu_hours": hours_in_it,
            "capacity_ratio": hours_in_it / total["capacity"] if total.get("capacity") else None,
            "inferred_ratio": inferred.get(bucket, 0.0) / hours_in_it if has_basis and hours_in_it > 1e-9 else None,
            "sensed_ratio": hours_in_it / sensed if is_sensed and sensed else None,
            "gpu_hours_at_least": least,
            "gpu_hours_at_most": most,
            "observed_from": book.observed_from,
            "observed_until": book.observed_until,
        }
    return found
