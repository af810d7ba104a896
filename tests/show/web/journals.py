"""Journals of incidents at random, and what plain Python makes of them."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, date, datetime, timedelta

from gpulake.core.incidents import Incident, acknowledged, confirmed, muted, resolved
from gpulake.core.sightings import Sighting
from gpulake.lake import Lake

FIRST = datetime(2026, 3, 1, tzinfo=UTC)
HOSTILE = "<script>alert(1)</script>"
FORMULA = "=HYPERLINK(1)"
REASONS = ("OutOfMemoryError", "unusual_utilisation", "hot_gpu", HOSTILE)
SUBJECTS = ("/logs/a.log", "2026-03-04", "gpu01", HOSTILE, FORMULA)


def scatter(lake: Lake, seed: int, count: int = 40) -> list[Incident]:
    """As they stand after a few events each; on the disk in the order of time."""
    chance = random.Random(seed)
    histories = [_history(chance, number) for number in range(count)]
    events = sorted((event for history in histories for event in history), key=lambda event: event.changed_at)
    lake.append("incident_events", [event.row() for event in events])
    return [history[-1] for history in histories]


def _history(chance: random.Random, number: int) -> list[Incident]:
    opened = FIRST + timedelta(days=20, minutes=number)
    began = chance.choice([None, FIRST + timedelta(hours=12 * chance.randrange(16))])
    ended = chance.choice([None, (began or opened) + timedelta(hours=12 * chance.randrange(5))])
    reason = chance.choice(REASONS)
    seen = Sighting(reason, "s", began or opened, ended or began or opened, headline=HOSTILE)
    first = Incident(
        f"i-{number:03}",
        opened,
        "opened",
        "gpulake",
        kind=reason if reason != "OutOfMemoryError" else "failure",
        severity=chance.choice(["critical", "warning", "info"]),
        subject=chance.choice(SUBJECTS),
        cluster_id=chance.choice([None, "tiger", "synth"]),
        node=chance.choice([None, "gpu01", HOSTILE]),
        job_id=chance.choice([None, "80", "a&b"]),
        opened_at=opened,
        reason=reason,
        cause=chance.choice([HOSTILE, FORMULA, "a fan"]),
        gpu_hours_lost=chance.choice([None, 1.5, 0.0]),
        began_at=began,
        last_seen_at=ended,
        members=(seen,),
    )
    history = [first]
    changes: list[Callable[..., Incident]] = [acknowledged, muted, resolved, confirmed]
    for change in chance.sample(changes, chance.randrange(4)):
        if history[-1].state == "resolved":
            break
        if change is acknowledged and history[-1].state == "acknowledged":
            continue
        history.append(change(history[-1], "bob", history[-1].changed_at + timedelta(minutes=1), note="n"))
    return history


def days_of(incident: Incident) -> set[date]:
    """On which it was seen: its end does not count, unless it has no length."""
    began = incident.began_at or incident.opened_at or incident.changed_at
    ended = max(incident.last_seen_at or began, began)
    last = (ended - timedelta(microseconds=1)).date() if ended > began else began.date()
    return {began.date() + timedelta(days=day) for day in range((last - began.date()).days + 1)}


def chosen(incidents: Sequence[Incident], **given: str) -> Iterator[Incident]:
    """Those that the filters of the dashboard leave."""
    first = date.fromisoformat(given.get("from", "1970-01-01"))
    last = date.fromisoformat(given.get("to", "2100-01-01"))
    for one in incidents:
        is_there = any(first <= day <= last for day in days_of(one))
        is_like = given.get("cluster") in (None, one.cluster_id) and given.get("state") in (None, one.state)
        is_such = given.get("severity") in (None, one.severity) and given.get("kind") in (None, one.kind, one.reason)
        if is_there and is_like and is_such:
            yield one
