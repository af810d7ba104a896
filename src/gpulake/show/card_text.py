"""The efficiency card as text: one screen, 100 columns. Lines without indentation are headings."""

from __future__ import annotations

from collections.abc import Iterator

from gpulake.core.ledger import MEANINGS, bucket_name
from gpulake.core.words import amount, bar, bounds, count, inferred, label, ordinal, share, span
from gpulake.show.advice import Advice
from gpulake.show.efficiency import Card, Energy, Money
from gpulake.show.observed import generated

BAR_WIDTH = 34
MOST_ID = 22
MOST_USER = 16
MOST_CLUSTERS = 3


def card_text(card: Card) -> str:
    parts = [_head(card), _ledger(card), _advice(card), _users(card)]
    return "\n\n".join("\n".join(lines) for lines in map(list, parts) if lines) + "\n"


def _whose(card: Card) -> str:
    whose = f"user {label(card.user_id, 40)}" if card.user_id is not None else "all users"
    return whose if card.account_id is None else f"{whose} of account {label(card.account_id, 40)}"


def _head(card: Card) -> Iterator[str]:
    whose = _whose(card)
    days = (card.last_day - card.first_day).days + 1
    where = label(", ".join(one.cluster_id for one in card.clusters), 24)
    yield f"{whose} on {where}, {card.first_day} to {card.last_day} ({count(days, 'day')})"
    if names := generated(card.clusters):
        yield f"  generated  {label(names, 60)}: not measured on a real cluster"
    for one in card.clusters[:MOST_CLUSTERS]:
        yield f"  observed   {label(one.cluster_id, 16)} from {one.time}"
    if (others := len(card.clusters) - MOST_CLUSTERS) > 0:
        yield f"             and {count(others, 'cluster')} more"
    for one in card.clusters:
        if one.missing:
            yield f"  missing    {one.missing}"
    yield f"  held       {_held(card)}"
    if card.held > 0:
        yield f"  used       {used_words(card)}"
        yield f"  wasted     {wasted_words(card)}"
        under_used = card.buckets["under_used"]
        yield f"  under-used {amount(under_used)} GPU-hours ({share(under_used, card.held)}), not counted as wasted"
    yield f"  cost       {_cost(card.money, card.currency)}"
    if energy := card.energy_kilowatt_hours:
        yield f"  energy     about {_energy(energy)}"
    if card.standing and not card.is_unseen:
        at_most = " at most" if card.wasted_at_least < card.wasted else ""
        rank = f"{ordinal(card.standing.waste_rank)} of {count(card.users, 'user')} by waste{at_most}, idle first"
        yield f"  rank       {rank}, {ordinal(card.standing.held_rank)} by what they held"
    if waits := card.waits:
        yield f"  waits      median {span(waits.median_seconds)}, 95 % start within {span(waits.p95_seconds)}"


def _held(card: Card) -> str:
    failed = f" ({card.failed_jobs:,} failed)" if card.failed_jobs else ""
    held = f"{amount(card.held)} GPU-hours in {count(card.jobs, 'job')}{failed}"
    if card.capacity is None:
        return held
    if not card.held and any(one.missing for one in card.clusters):
        return f"not known how much of {amount(card.capacity)} GPU-hours"
    return f"{held} of {count(card.users, 'user')}: {share(card.held, card.capacity)} of {amount(card.capacity)}"


def used_words(card: Card) -> str:
    """As a share of what sensors measured; as a share of held it is a range."""
    used, unobserved = card.buckets["used"], card.buckets["unobserved"]
    if not card.sensed:
        return "unknown: no sensor measured it" if card.is_unseen else "unknown: no sensor measured what was not lost"
    at_most = used + unobserved + card.lost - card.lost_at_least
    of_held = bounds(used, at_most, lambda hours: share(hours, card.held))
    return (
        f"{share(used, card.sensed)} of the {amount(card.sensed)} GPU-hours that sensors measured: {amount(used)}, "
        f"{of_held} of what was held"
    )


def wasted_words(card: Card) -> str:
    if card.is_unseen:
        return "unknown: no sensor measured what was held"
    hours = f"{bounds(card.wasted_at_least, card.wasted)} GPU-hours"
    ratio = bounds(card.wasted_at_least, card.wasted, lambda hours: share(hours, card.held))
    return f"{hours} ({ratio}): {amount(card.buckets['idle'])} idle, {lost_words(card)}"


def lost_words(card: Card) -> str:
    return f"{bounds(card.lost_at_least, card.lost)} lost{inferred(card.inferred_lost, card.lost)}"


def _cost(money: Money | None, currency: str) -> str:
    if money is None:
        return "unknown: no price_per_hour is set, and these GPUs have no list price"
    return f"{amount(money.amount)} {currency}, {cost_words(money)}{_without(money, 'price')}"


def cost_words(money: Money) -> str:
    listed = ", at list prices" if money.is_listed else ""
    return f"{bounds(money.wasted_at_least, money.wasted)} of it wasted, {amount(money.under_used)} under-used{listed}"


def _energy(energy: Energy) -> str:
    unused = f"{amount(energy.unused)} for GPUs held and not in use"
    return f"{amount(energy.amount)} kWh, {unused}{_without(energy, 'power')}"


def _without(total: Money | Energy, unknown: str) -> str:
    hours = total.without_gpu_hours
    return f" ({amount(hours)} GPU-hours: {unknown} unknown)" if hours > 0 else ""


def _ledger(card: Card) -> Iterator[str]:
    if card.total <= 0:
        return
    yield "Where the GPU-hours went" if card.capacity is not None else "What became of the GPU-hours held"
    for bucket, hours in card.buckets.items():
        drawn = f"{bar(hours, card.total, BAR_WIDTH)} {amount(hours):>10} {share(hours, card.total):>6}"
        yield f"  {bucket_name(bucket):<12}{drawn}  {MEANINGS[bucket]}"
    if card.lost > card.lost_at_least:
        yield "  failed, timed out and interrupted are upper bounds of what was lost: not all checkpoints are known"
    if card.inferred > 0:
        yield f"  {share(card.inferred, card.held)} of what was held is based on inferred times"


def _advice(card: Card) -> Iterator[str]:
    if not card.advice:
        yield no_advice(card)
        return
    yield f"{'The change' if len(card.advice) == 1 else 'The changes'} that would save most"
    for place, advice in enumerate(card.advice, start=1):
        yield f"{place}. {advice.title:<39} {_saving(advice, card.currency)}"
        yield f"   {count(advice.jobs, 'job')}, {bucket_name(advice.saves)}: {advice.reckoning}"
        for proof in advice.proofs:
            measured = "unknown" if proof.measured_gpu_hours is None else amount(proof.measured_gpu_hours)
            user = "" if card.user_id is not None else f"{label(proof.user_id, MOST_USER):<{MOST_USER + 1}}"
            yield (
                f"   {label(proof.job_id, MOST_ID):<{MOST_ID + 1}}{user}{proof.day}  held "
                f"{amount(proof.held_gpu_hours):>7}  measured {measured:>7}  saves {amount(proof.saved_gpu_hours):>7}"
            )


def no_advice(card: Card) -> str:
    if any(one.missing for one in card.clusters) and not card.held:
        return "No advice: what was requested is not known"
    if card.is_unseen and card.held:
        return "No advice: no sensor measured what was held"
    return "No advice: no change would have saved a GPU-hour"


def _saving(advice: Advice, currency: str) -> str:
    money = ""
    if advice.saved_cost is not None:
        money = f", {amount(advice.saved_cost)} {currency}"
    return f"{advice.saving}{money}"


def _users(card: Card) -> Iterator[str]:
    if not card.worst_users:
        return
    heads = ("held", "used", "under-used", "idle", "lost up to")
    yield f"{'Who wastes most':<{MOST_USER + 2}}{'wasted':>20}" + "".join(f"{head:>12}" for head in heads)
    for user in card.worst_users:
        wasted = bounds(user.wasted_at_least, user.wasted)
        hours = (user.held, user.used, user.under_used, user.idle, user.lost)
        yield f"  {label(user.user_id, MOST_USER):<{MOST_USER}}{wasted:>20}" + "".join(
            f"{amount(value):>12}" for value in hours
        )
    lost, unsure = (sum(getattr(user, name) for user in card.worst_users) for name in ("lost", "inferred_lost"))
    if unsure > 0:
        yield f"  {share(unsure, lost)} of what these lost is based on inferred times"
