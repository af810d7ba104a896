"""docs/ledger.md, "Capacity" and "Down and unknown": how many GPUs there are, and when machines were out of service."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, floor

from oracle.deaths import Outage, deaths
from oracle.facts import HOUR, Facts, Sampled
from oracle.holdings import Holding
from oracle.observing import Hour
from oracle.sampling import MODEL, seen_hours
from oracle.states import reported, said

POOL = "(pool)"
MISSED_BUSY_HOURS = 20


@dataclass(frozen=True)
class Capacity:
    gpu_type: str | None
    gpus: float
    basis: str
    counted_from: int | None = None


def is_pool(facts: Facts) -> bool:
    """Jobs are not known to run on this machine or that."""
    return not facts.has_placement


def place_of(facts: Facts, machine: str | None) -> str | None:
    return POOL if is_pool(facts) else machine


def capacity(facts: Facts, holdings: list[Holding]) -> dict[str, Capacity]:
    """GPUs by machine, or of the pool."""
    if facts.machines:
        listed = {name: (kind, gpus) for name, (kind, gpus) in facts.machines.items() if gpus > 0}
        if not is_pool(facts):
            return {name: Capacity(kind, float(gpus), "inventory") for name, (kind, gpus) in listed.items()}
        types = {kind for kind, _ in listed.values()}
        kind = types.pop() if len(types) == 1 else "mixed"
        return {POOL: Capacity(kind, float(sum(gpus for _, gpus in listed.values())), "inventory")}
    if facts.gpus_setting and is_pool(facts):
        return {POOL: Capacity(facts.gpu_type_setting or None, float(facts.gpus_setting), "settings")}
    found = {}
    places = {place_of(facts, one.attempt.machine) for one in holdings}
    for place in sorted(place for place in places if place is not None):
        mine = [one for one in holdings if place_of(facts, one.attempt.machine) == place and one.gpus > 0 and one.span]
        most = max((_held_at(mine, one.span[0]) for one in mine if one.span), default=0.0)
        types = {one.attempt.task.gpu_type for one in mine if one.span and one.span[1] > one.span[0]}
        kind = None if not types else types.pop() if len(types) == 1 else "mixed"
        if most > 0:
            found[place] = Capacity(kind, float(ceil(most - 1e-9)), "peak")
    for machine, sampled in facts.sampled.items():
        found[machine] = _seen(sampled, found.get(machine), holdings, machine)
    # What the setting has beyond the machines that are known is one more pool.
    rest = facts.gpus_setting - sum(one.gpus for one in found.values())
    if rest > 0:
        found[POOL] = Capacity(facts.gpu_type_setting or None, rest, "settings")
    return found


def _seen(sampled: Sampled, held: Capacity | None, holdings: list[Holding], machine: str) -> Capacity:
    """What telemetry saw of a machine, or held more."""
    gpus = len(sampled.uses)
    if held is None:
        return Capacity(MODEL, gpus, "telemetry", sampled.first)
    begins = [one.held_from for one in holdings if one.attempt.machine == machine and one.held_from is not None]
    first = min([sampled.first, *begins])
    if held.gpus > gpus:
        return Capacity(held.gpu_type or MODEL, held.gpus, "peak", first)
    return Capacity(held.gpu_type or MODEL, gpus, "telemetry", first)


def _held_at(holdings: list[Holding], moment: int) -> float:
    return sum(one.gpus for one in holdings if one.span and one.span[0] <= moment < one.span[1])


def outages(
    facts: Facts, hours: list[Hour], held: set[tuple[str | None, int]], listed: dict[str, Capacity]
) -> list[Outage]:
    """`held`: machines and begins of hours in which GPUs were held."""
    until = hours[-1].until
    recorded = _recorded(facts, until)
    down, unknown = reported(facts, until)
    recorded += [part for outage in _joined(down) for part in _without(outage, recorded)]
    stated = recorded + [Outage(name, "said", first, last) for name, first, last in said(facts)]
    recorded += [part for outage in _joined(unknown) for part in _without(outage, stated)]
    if is_pool(facts) or not facts.machines:
        return recorded
    # Of a machine of which an outage is recorded in the time under observation nothing is inferred.
    known = {
        name
        for name, first, last in facts.outages
        if first < until and (until if last is None else last) > hours[0].since
    }
    # Nor of one of which the scheduler says anything in that time.
    known |= {name for name, first, last in said(facts) if first < until and last > hours[0].since}
    died = deaths(facts, {name: kind.gpu_type for name, kind in listed.items()}, known, until)
    # A machine that is not listed is no part of the cluster.
    busy = {machine: times for machine, times in busy_hours(facts, hours, held).items() if machine in listed}
    silent = [outage for machine in listed if machine not in known for outage in _silences(machine, hours, busy)]
    inferred = died + [part for outage in silent for part in _without(outage, died)]
    seen = [
        Outage(name, "seen", first, last)
        for name, sampled in facts.sampled.items()
        for first, last in seen_hours(sampled)
    ]
    return recorded + [part for outage in inferred for part in _without(outage, recorded + seen)]


def _without(outage: Outage, others: list[Outage]) -> list[Outage]:
    """Stretches of a machine do not overlap: what is down is not unknown."""
    parts = [outage]
    for other in others:
        if other.machine == outage.machine:
            parts = [
                Outage(part.machine, part.basis, first, last)
                for part in parts
                for first, last in (
                    (part.started, min(part.ended, other.started)),
                    (max(part.started, other.ended), part.ended),
                )
                if last > first
            ]
    return parts


def _recorded(facts: Facts, until: int) -> list[Outage]:
    """Stretches of a machine do not overlap: what does is one."""
    return _joined(
        [Outage(name, "recorded", first, until if last is None else last) for name, first, last in facts.outages]
    )


def _joined(outages: list[Outage]) -> list[Outage]:
    found: list[Outage] = []
    for one in sorted(outages, key=lambda one: (one.machine, one.started, one.ended)):
        if one.ended <= one.started:
            continue  # it began after observation had ended
        if found and found[-1].machine == one.machine and one.started <= found[-1].ended:
            found[-1] = Outage(one.machine, one.basis, found[-1].started, max(found[-1].ended, one.ended))
        else:
            found.append(one)
    return found


def quantile(values: list[float], share: float) -> float:
    """Between the two nearest values, as most tools have it."""
    ordered = sorted(values)
    at = share * (len(ordered) - 1)
    low = floor(at)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (at - low)


def unknown_hours(facts: Facts, hours: list[Hour], machine: str | None) -> set[int]:
    """Begins of the hours of a machine in which attempts ran of which nobody knows how much they asked for.

    Each hour from the recorded begin to the recorded end; where one is missing or the end comes first, the hour of the
    other or of the begin.
    """
    found: set[int] = set()
    for attempt in facts.attempts:
        if attempt.gpus is None and attempt.status != "waiting" and place_of(facts, attempt.machine) == machine:
            known = [moment for moment in (attempt.began, attempt.recorded_end) if moment is not None]
            if known:
                found |= {
                    hour.started for hour in hours if hour.started <= max(known) and min(known) < hour.started + HOUR
                }
    return found


def busy_hours(facts: Facts, hours: list[Hour], held: set[tuple[str | None, int]]) -> dict[str, set[int]]:
    """Hours with GPUs held, or an attempt of unknown demand; begin or end of an attempt without GPUs; by machine."""
    busy: dict[str, set[int]] = {}
    for machine, begin in held:
        if machine is not None:
            busy.setdefault(machine, set()).add(begin)
    for attempt in facts.attempts:
        for moment in (attempt.began, attempt.recorded_end):
            if moment is not None and attempt.machine is not None and attempt.gpus == 0:
                at = {hour.started for hour in hours if hour.started <= moment < hour.started + HOUR}
                busy.setdefault(attempt.machine, set()).update(at)
    for machine in {attempt.machine for attempt in facts.attempts if attempt.machine is not None}:
        busy.setdefault(machine, set()).update(unknown_hours(facts, hours, machine))
    return busy


def _silences(machine: str, hours: list[Hour], busy: dict[str, set[int]]) -> list[Outage]:
    """Silence in which the machine would usually have been busy for 20 hours."""
    mine = busy.get(machine, set())
    found: list[Outage] = []
    stretch: list[Hour] = []
    for hour in [*hours, None]:
        if hour is not None and hour.started not in mine:
            stretch.append(hour)
            continue
        if stretch:
            within = {one.started for one in stretch}
            inside = sum(len(times & within) for times in busy.values())
            outside = sum(len(times - within) for times in busy.values())
            if outside and len(mine) * inside / outside >= MISSED_BUSY_HOURS:
                found.append(Outage(machine, "silent", stretch[0].started, stretch[-1].started + HOUR))
        stretch = []
    return found
