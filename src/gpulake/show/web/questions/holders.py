"""The report card of a person or a group: the numbers and the advice of `gpulake report efficiency`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import date
from typing import Any

import pyarrow as pa

from gpulake.core.config import Config
from gpulake.core.errors import LakeError
from gpulake.core.ledger import LOST, MEANINGS, bucket_name
from gpulake.core.words import amount, bounds, count, inferred, ordinal, share, span
from gpulake.lake import LakeReader
from gpulake.show.advice import Advice
from gpulake.show.card_text import cost_words, used_words, wasted_words
from gpulake.show.efficiency import NEEDED, Card, Energy, Money, Scope, advise, efficiency_card, unknown
from gpulake.show.web.given import as_query
from gpulake.show.web.questions import Computed, Value

JOBS = "/rows/efficiency_of_jobs"
TILE = pa.schema(
    [
        ("place", pa.int32()),
        ("label", pa.string()),
        ("value", pa.float64()),
        ("unit", pa.string()),
        ("words", pa.string()),
        ("note", pa.string()),
        ("level", pa.string()),
        ("link", pa.string()),
    ]
)
PROOF = pa.struct(
    [
        ("job_id", pa.string()),
        ("cluster_id", pa.string()),
        ("user_id", pa.string()),
        ("day", pa.date32()),
        ("held_gpu_hours", pa.float64()),
        ("measured_gpu_hours", pa.float64()),
        ("saved_gpu_hours", pa.float64()),
    ]
)
ADVICE = pa.schema(
    [
        ("place", pa.int32()),
        ("kind", pa.string()),
        ("headline", pa.string()),
        ("detail", pa.string()),
        ("saves", pa.string()),
        ("saved_gpu_hours", pa.float64()),
        ("saved_at_least_gpu_hours", pa.float64()),
        ("inferred_gpu_hours", pa.float64()),
        ("saved_cost", pa.float64()),
        ("currency", pa.string()),
        ("jobs", pa.int64()),
        ("proofs", pa.list_(PROOF)),
    ]
)
Tile = dict[str, Any]


def scope_of(given: Mapping[str, Value]) -> Scope:
    word = {name: str(value) for name, value in given.items() if value is not None}
    day = {name: date.fromisoformat(word[name]) for name in ("from", "to") if name in word}
    return Scope(
        user=word.get("user"),
        group=word.get("group"),
        account=word.get("account"),
        cluster=word.get("cluster"),
        first_day=day.get("from"),
        last_day=day.get("to"),
    )


def card_tiles(reader: LakeReader, config: Config, given: Mapping[str, Value]) -> pa.Table:
    if unknown(reader, scope_of(given)):
        return TILE.empty_table()
    try:
        card = efficiency_card(reader, config, scope_of(given), is_brief=True)
    except LakeError:
        # Nothing was held or available on these days.
        return TILE.empty_table()
    rows = [{"place": place, **tile} for place, tile in enumerate(_tiles(card, as_query(given)), start=1)]
    return pa.Table.from_pylist(rows, TILE)


def advice_rows(reader: LakeReader, config: Config, given: Mapping[str, Value]) -> pa.Table:
    scope = scope_of(given)
    # For all users it takes many seconds and much memory: gpulake report computes it.
    if not scope.is_holder or unknown(reader, scope):
        return ADVICE.empty_table()
    every = enumerate(advise(reader, config, scope), start=1)
    rows = [_advice(place, one, config.currency) for place, one in every]
    return pa.Table.from_pylist(rows, ADVICE)


def _tile(
    label: str, value: float | None, unit: str, note: str, level: str = "", link: str = "", words: str = ""
) -> Tile:
    return {"label": label, "value": value, "unit": unit, "words": words, "note": note, "level": level, "link": link}


def _tiles(card: Card, query: str) -> Iterator[Tile]:
    failed = f", {card.failed_jobs:,} failed" if card.failed_jobs else ""
    yield _tile(
        "held", card.held, "gpu_hours", f"GPU-hours, {count(card.jobs, 'job')}{failed}", link=f"{JOBS}?{query}&by=held"
    )
    used = _ratio(card.buckets["used"], card.sensed)
    yield _tile("used", used, "share_ratio", used_words(card), "", f"{JOBS}?{query}&by=used")
    yield _bounded("wasted", card.wasted_at_least, card.wasted, card.held, wasted_words(card), f"{JOBS}?{query}")
    yield _part(card, "idle", query)
    yield _part(card, "under_used", query, ", not counted as wasted")
    lost = f"{bounds(card.lost_at_least, card.lost)} GPU-hours{inferred(card.inferred_lost, card.lost)}"
    yield _bounded("lost", card.lost_at_least, card.lost, card.held, lost, f"{JOBS}?{query}&by=lost")
    for bucket in LOST:
        if card.buckets[bucket] > 0:
            yield _part(card, bucket, query, ", at most" if card.lost_at_least < card.lost else "")
    yield _part(card, "unobserved", query)
    yield _cost(card.money, card.currency)
    yield _energy(card.energy_kilowatt_hours)
    if card.standing:
        at_most = "at most; " if card.wasted_at_least < card.wasted else ""
        held = f"{at_most}of {count(card.users, 'user')}; {ordinal(card.standing.held_rank)} by what they held"
        yield _tile("rank by waste", card.standing.waste_rank, "count", held, link="/rows/efficiency_by_user")
    if card.waits:
        note = f"the median; 95 % start within {span(card.waits.p95_seconds)}"
        yield _tile("wait", card.waits.median_seconds, "wait_seconds", note)
    if card.inferred > 0:
        note = "of what was held is based on inferred times"
        yield _tile("inferred", _ratio(card.inferred, card.held), "share_ratio", note, "soft")


def _part(card: Card, bucket: str, query: str, note: str = "") -> Tile:
    """A bucket, as a share of held."""
    hours = card.buckets[bucket]
    said = f"{MEANINGS[bucket]}: {_hours(hours)}{note}"
    level = "soft" if bucket == "unobserved" else ""
    return _tile(
        bucket_name(bucket), _ratio(hours, card.held), "share_ratio", said, level, f"{JOBS}?{query}&by={bucket}"
    )


def _bounded(label: str, least: float, most: float, held: float, note: str, link: str) -> Tile:
    """A share of held within bounds; its value is the upper one."""
    low, high = share(least, held), share(most, held)
    words = f"{low} to {high}" if low != high else ""
    return _tile(label, _ratio(most, held), "share_ratio", note, "bad" if most > 0 else "", link, words)


def _ratio(part: float, whole: float) -> float | None:
    return part / whole if whole > 0 else None


def _hours(value: float) -> str:
    return f"{amount(value)} GPU-hours"


def _cost(money: Money | None, currency: str) -> Tile:
    if money is None:
        return _tile("cost", None, "amount", "no price_per_hour is set", "soft")
    return _tile("cost", money.amount, "amount", f"{currency}, {cost_words(money)}{_without(money, 'price')}")


def _energy(energy: Energy | None) -> Tile:
    if energy is None:
        return _tile("energy", None, "amount", "no power of these GPUs is known", "soft")
    note = f"kWh, {amount(energy.unused)} for GPUs held and not in use{_without(energy, 'power')}"
    return _tile("energy", energy.amount, "amount", note)


def _without(total: Money | Energy, of: str) -> str:
    return f"; without {_hours(total.without_gpu_hours)} of unknown {of}" if total.without_gpu_hours > 0 else ""


def _advice(place: int, one: Advice, currency: str) -> dict[str, Any]:
    money = f", {amount(one.saved_cost)} {currency}" if one.saved_cost is not None else ""
    return {
        "place": place,
        "kind": one.kind,
        "headline": f"{one.title}: {one.saving}{money}",
        "detail": f"{count(one.jobs, 'job')}, {bucket_name(one.saves)}: {one.reckoning}",
        "saves": one.saves,
        "saved_gpu_hours": one.saved_gpu_hours,
        "saved_at_least_gpu_hours": one.saved_at_least_gpu_hours,
        "inferred_gpu_hours": one.inferred_gpu_hours,
        "saved_cost": one.saved_cost,
        "currency": currency,
        "jobs": one.jobs,
        "proofs": [{field.name: getattr(proof, field.name) for field in PROOF} for proof in one.proofs],
    }


_TABLES, _FILTERS = frozenset(NEEDED), frozenset({"days", "cluster"})
COMPUTED = {
    "report_card": Computed(card_tiles, _TABLES, _FILTERS),
    "advice": Computed(advice_rows, _TABLES, _FILTERS),
}
