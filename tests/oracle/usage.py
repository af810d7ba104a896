"""Who held what: claims as they were made, by job and by user."""

from __future__ import annotations

from collections import defaultdict

from oracle.holdings import Holding
from oracle.ledger import HELD, Amounts, Book, Claim, add
from oracle.outages import is_pool, place_of

Rows = dict[tuple[object, ...], dict[str, object]]


def type_of(book: Book, holding: Holding) -> str:
    """GPU type of the machine, or else the one assigned; unlisted on a machine that the inventory does not have."""
    attempt = holding.attempt
    place = place_of(book.facts, attempt.machine)
    if book.facts.machines and not is_pool(book.facts):
        listed = book.facts.machines.get(attempt.machine or "")
        return "unlisted" if listed is None else listed[0] or "unknown"
    kind = book.capacity[place].gpu_type if place in book.capacity else attempt.task.gpu_type
    return kind or "unknown"


def _sums(claims: list[Claim]) -> dict[str, object]:
    total: Amounts = {}
    for claim in claims:
        add(total, claim.amounts)
    names = (*HELD, "held", "lost", "lost_at_least", "inferred", "inferred_lost")
    return {f"{name}_gpu_hours": total.get(name, 0.0) for name in names}


def job_efficiency(book: Book) -> Rows:
    """By day, job and GPU type."""
    groups: dict[tuple[object, ...], list[Claim]] = defaultdict(list)
    for claim in book.claims:
        groups[claim.hour.day, claim.holding.attempt.job.job_id, type_of(book, claim.holding)].append(claim)
    found: Rows = {}
    for key, claims in groups.items():
        job = claims[0].holding.attempt.job
        seen = [claim for claim in claims if claim.holding.attempt.used_gpus is not None]
        held = sum(claim.amounts["held"] for claim in seen)
        used = sum(claim.amounts["held"] * min(1.0, _used_share(claim)) for claim in seen)
        found[key] = {
            "user_id": job.user or "unknown",
            "group_id": job.group,
            "account_id": job.account,
            "workload": job.workload,
            "status": job.status,
            "attempts": len({id(claim.holding) for claim in claims}),
            "measured_gpu_hours": used,
            "gpu_efficiency_ratio": used / held if held else None,
            **_sums(claims),
        }
    return found


def _used_share(claim: Claim) -> float:
    return (claim.holding.attempt.used_gpus or 0.0) / claim.holding.gpus


def user_usage(book: Book) -> Rows:
    """By user and day."""
    groups: dict[tuple[object, ...], list[Claim]] = defaultdict(list)
    for claim in book.claims:
        groups[claim.holding.attempt.job.user or "unknown", claim.hour.day].append(claim)
    found: Rows = {}
    for key, claims in groups.items():
        jobs = {id(claim.holding.attempt.job): claim.holding.attempt.job for claim in claims}
        found[key] = {
            "jobs": len(jobs),
            "failed_jobs": sum(job.status in ("failed", "node_fail") for job in jobs.values()),
            **_sums(claims),
        }
    return found
