"""docs/ledger.md, "Time under observation": the window of a cluster, and its hours."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from datetime import date
from fractions import Fraction
from math import ceil

from oracle.facts import HOUR, Facts
from oracle.making import local_of


@dataclass(frozen=True)
class Hour:
    """An hour by the cluster's clocks; `since` and `until` are the part of it under observation."""

    started: int
    since: int
    until: int
    day: date

    @property
    def length(self) -> float:
        return (self.until - self.since) / HOUR

    def overlap(self, since: int, until: int) -> float:
        """Hours of this one within a stretch of time."""
        return max(0, min(until, self.until) - max(since, self.since)) / HOUR


def events(facts: Facts) -> list[int]:
    """Submission and end of each job, begin and end of each attempt, begin and end of each metric window."""
    found: list[int | None] = []
    for job in facts.jobs:
        found += [job.submitted, job.ended]
    for attempt in facts.attempts:
        found += [attempt.began, attempt.ended, *(attempt.window or ())]
    return sorted(moment for moment in found if moment is not None)


def window(facts: Facts) -> tuple[int, int, str]:
    """observed_from, observed_until and observed_basis."""
    moments = events(facts)
    begins, ends = _trimmed(_credible(moments, facts.credible_until // HOUR))
    if facts.pulled_from is not None:
        asked = max(one.asked for one in facts.snapshots)
        ended = [job.ended for job in facts.jobs if job.ended is not None]
        begins = facts.pulled_from if all(at >= facts.pulled_from for at in ended) else begins
        ends = max(ends, asked)
    is_trimmed = (facts.observed_from is None and begins != moments[0]) or (
        facts.observed_until is None and ends != moments[-1]
    )
    is_set = facts.observed_from is not None or facts.observed_until is not None
    return (
        begins if facts.observed_from is None else facts.observed_from,
        ends if facts.observed_until is None else facts.observed_until,
        "settings" if is_set else "pulled" if facts.pulled_from is not None else "trimmed" if is_trimmed else "events",
    )


def _credible(moments: list[int], last_hour: int) -> list[int]:
    """Without those that have not come yet, unless these are most of them."""
    kept = [moment for moment in moments if moment // HOUR <= last_hour]
    return kept if 2 * (len(moments) - len(kept)) <= len(moments) else moments


def _trimmed(moments: list[int]) -> tuple[int, int]:
    """The first and the last event that count, of all in the order of time."""
    total = len(moments)
    counts = Counter(moment // HOUR for moment in moments)
    low, high = moments[ceil(total * 5 / 100) - 1] // HOUR, moments[ceil(total * 95 / 100) - 1] // HOUR
    core = max(24, high - low)
    begins: list[tuple[Fraction, int]] = []
    for hour in counts:
        earlier = Fraction(sum(count for other, count in counts.items() if other < hour), total)
        if earlier <= Fraction(1, 20):
            gain = Fraction(hour - min(counts), core) - 10 * earlier
            begins.append((gain, -hour))  # the earliest of equals
    begin_hour = -max(begins)[1]
    return (
        min(moment for moment in moments if moment // HOUR == begin_hour),
        max(moment for moment in moments if moment // HOUR <= high + max(core, 168)),
    )


def hours(facts: Facts, since: int, until: int) -> list[Hour]:
    """Hours begin when the cluster's clocks are at a full hour; the first and last count with the part observed."""
    offset = local_of(since, facts.zone).utcoffset()
    assert offset is not None
    shift = int(offset.total_seconds()) % HOUR
    begins = (since + shift) // HOUR * HOUR - shift
    found = []
    while begins < until:
        day = local_of(begins, facts.zone).date()
        found.append(Hour(begins, max(begins, since), min(begins + HOUR, until), day))
        begins += HOUR
    return found
