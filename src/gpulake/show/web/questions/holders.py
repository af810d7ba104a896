"""The report card of a person or a group: the numbers and the advice of `gpulake report efficiency`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import date
from typing import Any

import pyarrow as pa

from gpulake.core.config import Config
from gpulake.core.errors import LakeError
from gpulake.core.words import amount, count, ordinal, span
from gpulake.lake import Reader
from gpulake.show.advice import Advice
from gpulake.show.efficiency import Card, Scope, Sum, advise, efficiency_card, unknown
from gpulake.show.efficiency_sql import NEEDED
from gpulake.show.web.given import as_query
from gpulake.show.web.questions import KEPT, Computed, Question, Value
from gpulake.show.web.questions.efficiency import GROUP, OWN, USER

JOBS = "/rows/efficiency_of_jobs"
BUCKETS = {
    "productive": ("held and used", "good"),
    "under_used": ("held, used in part", ""),
    "idle": ("held, and empty", ""),
    "lost": ("held, then failed or stopped", ""),
    "unobserved": ("held; no sensor saw the use", "soft"),
}
TILE = pa.schema(
    [
        ("place", pa.int32()),
        ("label", pa.string()),
        ("value", pa.float64()),
        ("unit", pa.string()),
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
        ("used_gpu_hours", pa.float64()),
        ("saved_gpu_hours", pa.float64()),
    ]
)
ADVICE = pa.schema(
    [
        ("place", pa.int32()),
        ("kind", pa.string()),
        ("headline", pa.string()),
        ("detail", pa.string()),
        ("saved_gpu_hours", pa.float64()),
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
        cluster=word.get("cluster"),
        first_day=day.get("from"),
        last_day=day.get("to"),
    )


def card_tiles(reader: Reader, config: Config, given: Mapping[str, Value]) -> pa.Table:
    if unknown(reader, scope_of(given)):
        return TILE.empty_table()
    try:
        card = efficiency_card(reader, config, scope_of(given), is_brief=True)
    except LakeError:
        # Nothing was held or offered on these days.
        return TILE.empty_table()
    rows = [{"place": place, **tile} for place, tile in enumerate(_tiles(card, as_query(given)), start=1)]
    return pa.Table.from_pylist(rows, TILE)


def advice_rows(reader: Reader, config: Config, given: Mapping[str, Value]) -> pa.Table:
    scope = scope_of(given)
    # Of everyone it takes many seconds, and more memory than a server should take: gpulake report has it.
    if not scope.is_holder or unknown(reader, scope):
        return ADVICE.empty_table()
    found = advise(reader, config, scope)
    rows = [_advice(place, one, config.currency) for place, one in enumerate(found, start=1)]
    return pa.Table.from_pylist(rows, ADVICE)


def _tile(label: str, value: float | None, unit: str, note: str, level: str = "", link: str = "") -> Tile:
    return {"label": label, "value": value, "unit": unit, "note": note, "level": level, "link": link}


def _tiles(card: Card, query: str) -> Iterator[Tile]:
    failed = f", {card.failed_jobs:,} failed" if card.failed_jobs else ""
    yield _tile(
        "held", card.held, "gpu_hours", f"GPU-hours, {count(card.jobs, 'job')}{failed}", link=f"{JOBS}?{query}&by=held"
    )
    yield _tile("wasted", _ratio(card.wasted, card.held), "share_ratio", _hours(card.wasted), "bad", f"{JOBS}?{query}")
    for bucket, (meaning, level) in BUCKETS.items():
        hours = card.buckets[bucket]
        note = f"{meaning}: {_hours(hours)}"
        target = f"{JOBS}?{query}&by={bucket}"
        yield _tile(bucket.replace("_", "-"), _ratio(hours, card.held), "share_ratio", note, level, target)
    yield _sum("cost", card.money, card.currency, "no price_per_hour is set", "price")
    yield _sum("energy", card.energy_kilowatt_hours, "kWh", "no power of these GPUs is known", "power")
    if card.standing:
        held = f"of {count(card.users, 'user')}; {ordinal(card.standing.held_rank)} by what they held"
        yield _tile("rank by waste", card.standing.waste_rank, "count", held, link="/rows/efficiency_by_user")
    if card.waits:
        note = f"the median; 95 % start within {span(card.waits.p95_seconds)}"
        yield _tile("wait", card.waits.median_seconds, "wait_seconds", note)
    if card.inferred > 0:
        note = "of what was held rests on inferred times"
        yield _tile("inferred", _ratio(card.inferred, card.held), "share_ratio", note, "soft")


def _ratio(part: float, whole: float) -> float | None:
    return part / whole if whole > 0 else None


def _hours(value: float) -> str:
    return f"{amount(value)} GPU-hours"


def _sum(label: str, total: Sum | None, unit: str, unknown: str, of: str) -> Tile:
    if total is None:
        return _tile(label, None, "amount", unknown, "soft")
    without = f"; without {_hours(total.without_gpu_hours)} of unknown {of}" if total.without_gpu_hours > 0 else ""
    return _tile(label, total.amount, "amount", f"{unit}, {amount(total.wasted)} of it wasted{without}")


def _advice(place: int, one: Advice, currency: str) -> dict[str, Any]:
    money = f", {amount(one.saved_cost)} {currency}" if one.saved_cost is not None else ""
    return {
        "place": place,
        "kind": one.kind,
        "headline": f"{one.title}: saves {_hours(one.saved_gpu_hours)}{money}",
        "detail": f"{count(one.jobs, 'job')}: {one.reckoning}",
        "saved_gpu_hours": one.saved_gpu_hours,
        "saved_cost": one.saved_cost,
        "currency": currency,
        "jobs": one.jobs,
        "proofs": [{field.name: getattr(proof, field.name) for field in PROOF} for proof in one.proofs],
    }


HELD_BY_DAY = f"""
SELECT
    dt AS day, sum(used_gpu_hours) AS productive, sum(under_used_gpu_hours) AS under_used,
    sum(idle_gpu_hours) AS idle, sum(lost_gpu_hours) AS lost, sum(unobserved_gpu_hours) AS unobserved,
    sum(held_gpu_hours) AS held
FROM gold_job_efficiency_daily WHERE {OWN} AND {{days}} AND {{cluster}} AND {{gpu_type}}
GROUP BY dt
"""
CAUSES = f"""
WITH jobs AS (
    SELECT
        job_key, coalesce(any_value(status), 'unknown') AS status, sum(idle_gpu_hours) AS idle,
        sum(under_used_gpu_hours) AS under_used, sum(lost_gpu_hours) AS lost
    FROM gold_job_efficiency_daily WHERE {OWN} AND {{days}} AND {{cluster}} AND {{gpu_type}}
    GROUP BY job_key
),
causes AS (
    SELECT 'idle' AS bucket, 'held, and empty' AS reason, count(*) AS jobs, sum(idle) AS wasted_gpu_hours
    FROM jobs WHERE idle > 0
    UNION ALL
    SELECT 'under_used', 'held, used in part', count(*), sum(under_used) FROM jobs WHERE under_used > 0
    UNION ALL
    SELECT 'lost', 'lost, job ' || status, count(*), sum(lost) FROM jobs WHERE lost > 0 GROUP BY status
)
SELECT
    reason, bucket, jobs, wasted_gpu_hours, wasted_gpu_hours / sum(wasted_gpu_hours) OVER () AS share_of_waste_ratio,
    '{JOBS}?' || concat_ws(
        '&', 'by=' || bucket,
        'user=' || url_encode(getvariable('user')::VARCHAR),
        'group=' || url_encode(getvariable('group')::VARCHAR),
        {KEPT}
    ) AS link
FROM causes WHERE wasted_gpu_hours > 0
"""
_CARD = Computed(card_tiles, frozenset(NEEDED), frozenset({"days", "cluster"}))
_ADVICE = Computed(advice_rows, frozenset(NEEDED), frozenset({"days", "cluster"}))

QUESTIONS = (
    Question(
        name="report_card",
        title="The report card",
        sql="SELECT * FROM computed",
        order="place",
        options=(USER, GROUP),
        about="As in gpulake report efficiency. Shares are of what was held, on all types of GPU.",
        computed=_CARD,
    ),
    Question(
        name="advice",
        title="What would save most",
        sql="SELECT * FROM computed",
        order="place",
        options=(USER, GROUP),
        about=(
            "Of a user or a group: everyone's is in gpulake report efficiency. Each computed from jobs that prove it, "
            "the foremost of them named. No GPU-hour is saved by two of them."
        ),
        computed=_ADVICE,
    ),
    Question(
        name="held_by_day",
        title="What became of what was held, by day",
        sql=HELD_BY_DAY,
        order="day",
        options=(USER, GROUP),
        about="In GPU-hours, as jobs claim them; those of a day sum to what was held.",
    ),
    Question(
        name="waste_by_cause",
        title="Waste by cause",
        sql=CAUSES,
        order="wasted_gpu_hours DESC, reason",
        options=(USER, GROUP),
        about="In GPU-hours. What was lost is told by how its job stands now: it may have been an earlier try.",
    ),
)
