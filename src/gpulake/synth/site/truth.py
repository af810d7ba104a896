"""The truth about a site: where its GPU-hours went, by the definitions of the ledger, and what was injected."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable
from dataclasses import asdict
from typing import Any

from gpulake.synth.site.activity import Part, Use
from gpulake.synth.site.jobs import Request
from gpulake.synth.site.plan import Plan, habits, iso
from gpulake.synth.site.schedule import History

IDLE_RATIO = 0.01  # below it the GPUs that an attempt holds are idle; idle_gpu_ratio of the settings
LOST = {
    **dict.fromkeys(("FAILED", "NODE_FAIL", "OUT_OF_MEMORY"), "failed"),
    "TIMEOUT": "timed_out",
    "PREEMPTED": "interrupted",
}
Buckets = dict[str, float]


def as_json(plan: Plan, history: History, parts: list[Part], use: Use, job_id: Callable[[Request], str]) -> bytes:
    site = plan.site
    document = {
        "is_generated": True,
        "note": "All of it, the text of the logs too, was written by gpulake synth site.",
        "cluster": habits()["cluster"],
        "site": {**asdict(site), "until": iso(site.ends_at), "begins_at": iso(site.begins_at)},
        **_ledger(plan, history, parts, use, job_id),
        "outages": [
            {
                **asdict(one),
                "node": site.name(one.node),
                "started_at": iso(one.started_at),
                "ended_at": iso(one.ended_at),
            }
            for one in history.outages
        ],
        "incidents": [incident.as_record(site) for incident in plan.incidents],
    }
    return (json.dumps(document, indent=1) + "\n").encode()


def _ledger(
    plan: Plan, history: History, parts: list[Part], use: Use, job_id: Callable[[Request], str]
) -> dict[str, Any]:
    """GPU-hours by bucket: of the site, of users, of accounts and of jobs; of jobs also what was used, as a share."""
    site = plan.site
    of_users: dict[str, Buckets] = defaultdict(lambda: defaultdict(float))
    of_accounts: dict[str, Buckets] = defaultdict(lambda: defaultdict(float))
    whole: Buckets = defaultdict(float)
    jobs: dict[str, dict[str, float]] = defaultdict(lambda: {"held": 0.0, "used": 0.0, "seen": 0.0, "samples": 0})
    for part, used_seconds, seen_seconds, samples in zip(
        parts, use.used_seconds, use.seen_seconds, use.samples, strict=True
    ):
        run = part.run
        held = len(part.devices) * ((run.ended_at or site.ends_at) - run.started_at) / 3600
        used = float(used_seconds) / 3600
        for bucket, hours in _buckets(run.state, held, used, bool(samples)).items():
            for buckets in (whole, of_users[run.request.user], of_accounts[run.request.account]):
                buckets[bucket] += hours
        if samples:
            job = jobs[job_id(run.request)]
            job["held"] += held
            job["used"] += used
            job["seen"] += float(seen_seconds) / 3600
            job["samples"] += int(samples) // len(part.devices)
    down = sum(one.ended_at - one.started_at for one in history.outages) * site.gpus / 3600
    capacity = site.nodes * site.gpus * (site.ends_at - site.begins_at) / 3600
    whole |= {"down": down, "unallocated": capacity - down - sum(whole.values())}
    return {
        "capacity_gpu_hours": capacity,
        "buckets": _rounded(whole),
        "users": {user: _rounded(buckets) for user, buckets in sorted(of_users.items())},
        "accounts": {account: _rounded(buckets) for account, buckets in sorted(of_accounts.items())},
        "jobs": {
            job: {
                "held_gpu_hours": round(one["held"], 4),
                "unused_ratio": round(1 - one["used"] / one["held"], 5),
                "seen_ratio": round(one["seen"] / one["held"], 5),
                "samples": one["samples"],
            }
            for job, one in jobs.items()
        },
    }


def _buckets(state: str, held: float, used: float, is_seen: bool) -> Buckets:
    if state in LOST:
        return {LOST[state]: held}
    if not is_seen:
        return {"unobserved": held}
    return {"idle": held} if used < IDLE_RATIO * held else {"used": used, "under_used": held - used}


def _rounded(buckets: Buckets) -> Buckets:
    return {bucket: round(hours, 4) for bucket, hours in sorted(buckets.items())}
