"""The efficiency card as text: one screen, 100 columns. What begins at the margin is a heading."""

from __future__ import annotations

from collections.abc import Iterator

from gpulake.core.words import amount, bar, count, label, ordinal, share, span
from gpulake.show.advice import Advice
from gpulake.show.efficiency import Card, Sum

BAR_WIDTH = 34
MOST_ID = 26
MOST_USER = 16
MEANINGS = {
    "productive": "held and used",
    "under_used": "held, used in part",
    "idle": "held, and empty",
    "lost": "held, then failed or stopped",
    "unobserved": "held; no sensor saw the use",
    "unallocated": "nobody held it",
    "down": "the machine was down",
}


def card_text(card: Card) -> str:
    parts = [_head(card), _ledger(card), _advice(card), _users(card)]
    return "\n\n".join("\n".join(lines) for lines in map(list, parts) if lines) + "\n"


def _head(card: Card) -> Iterator[str]:
    whose = f"user {label(card.user_id, 40)}" if card.user_id is not None else "all users"
    days = (card.last_day - card.first_day).days + 1
    where = label(", ".join(card.clusters), 24)
    yield f"{whose} on {where}, {card.first_day} to {card.last_day} ({count(days, 'day')})"
    yield f"  held     {_held(card)}"
    if card.held > 0:
        productive = card.buckets["productive"]
        has_sensors = productive + card.buckets["under_used"] + card.buckets["idle"] > 0
        used = f"{amount(productive)} GPU-hours, {share(productive, card.held)} of what was held"
        yield (
            f"  used     {used if has_sensors else 'unknown: no sensor saw it'}; "
            f"{amount(card.wasted)} wasted ({share(card.wasted, card.held)})"
        )
    yield f"  cost     {_cost(card)}"
    if energy := card.energy_kilowatt_hours:
        yield f"  energy   about {_sum(energy, 'kWh', 'power')}"
    if card.standing:
        rank = f"{ordinal(card.standing.waste_rank)} of {count(card.users, 'user')} by waste"
        yield f"  rank     {rank}, {ordinal(card.standing.held_rank)} by what they held"
    if waits := card.waits:
        yield f"  waits    median {span(waits.median_seconds)}, 95 % start within {span(waits.p95_seconds)}"


def _held(card: Card) -> str:
    failed = f" ({card.failed_jobs:,} failed)" if card.failed_jobs else ""
    held = f"{amount(card.held)} GPU-hours in {count(card.jobs, 'job')}{failed}"
    if card.capacity is None:
        return held
    return f"{held} of {count(card.users, 'user')}: {share(card.held, card.capacity)} of {amount(card.capacity)}"


def _cost(card: Card) -> str:
    return _sum(card.money, card.currency, "price") if card.money else "unknown: no price_per_hour is set"


def _sum(total: Sum, unit: str, unknown: str) -> str:
    hours = total.without_gpu_hours
    without = f" (without {amount(hours)} GPU-hours of unknown {unknown})" if hours > 0 else ""
    return f"{amount(total.amount)} {unit}, {amount(total.wasted)} of it wasted{without}"


def _ledger(card: Card) -> Iterator[str]:
    if card.total <= 0:
        return
    yield "Where the GPU-hours went" if card.capacity is not None else "What became of the GPU-hours held"
    for bucket, hours in card.buckets.items():
        name = bucket.replace("_", "-")
        yield (
            f"  {name:<12}{bar(hours, card.total, BAR_WIDTH)} {amount(hours):>10} {share(hours, card.total):>6}"
            f"  {MEANINGS[bucket]}"
        )
    if card.inferred > 0:
        yield f"  {share(card.inferred, card.held)} of what was held rests on inferred times"


def _advice(card: Card) -> Iterator[str]:
    if not card.advice:
        yield "Nothing to change: no change would have saved a GPU-hour"
        return
    yield f"{'The change' if len(card.advice) == 1 else 'The changes'} that would save most"
    for place, advice in enumerate(card.advice, start=1):
        yield f"{place}. {advice.title:<48} {_saving(advice, card.currency)}"
        yield f"   {count(advice.jobs, 'job')}: {advice.reckoning}"
        for proof in advice.proofs:
            used = "unknown" if proof.used_gpu_hours is None else amount(proof.used_gpu_hours)
            user = "" if card.user_id is not None else f"{label(proof.user_id, MOST_USER):<{MOST_USER + 1}}"
            yield (
                f"   {label(proof.job_id, MOST_ID):<{MOST_ID + 1}}{user}{proof.day}"
                f"  held {amount(proof.held_gpu_hours):>7}  used {used:>7}  saves {amount(proof.saved_gpu_hours):>7}"
            )


def _saving(advice: Advice, currency: str) -> str:
    money = ""
    if advice.saved_cost is not None:
        money = f", {amount(advice.saved_cost)} {currency}"
    return f"saves {amount(advice.saved_gpu_hours)} GPU-hours{money}"


def _users(card: Card) -> Iterator[str]:
    if not card.worst_users:
        return
    heads = ("wasted", "held", "productive", "under-used", "idle", "lost")
    yield f"{'Who wastes most':<{MOST_USER + 2}}" + "".join(f"{head:>12}" for head in heads)
    for user in card.worst_users:
        hours = (user.wasted, user.held, user.productive, user.under_used, user.idle, user.lost)
        yield f"  {label(user.user_id, MOST_USER):<{MOST_USER}}" + "".join(f"{amount(value):>12}" for value in hours)
