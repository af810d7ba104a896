"""docs/ledger.md, "Down and unknown": machines that lost all they ran at one moment and then stayed silent."""

from __future__ import annotations

from dataclasses import dataclass
from math import exp, log

from oracle.facts import HOUR, Attempt, Facts

SURE_SILENCE = 3 * HOUR


@dataclass(frozen=True)
class Outage:
    machine: str
    basis: str  # recorded, died or silent
    started: int
    ended: int


@dataclass(frozen=True)
class Death:
    """A machine that may have died at a moment."""

    machine: str
    moment: int
    wakes: int
    lost: int  # attempts


def deaths(facts: Facts, types: dict[str, str | None], known: set[str], until: int) -> list[Outage]:
    """`types`: GPU type of each machine of the inventory. Of those in `known` nothing is inferred."""
    by_moment: dict[int, list[Death]] = {}
    for machine in types.keys() - known:
        for death in _suspects(facts, machine, until):
            by_moment.setdefault(death.moment, []).append(death)
    moments = [group for group in by_moment.values() if _lost(group) >= 2]
    found = []
    for group in moments:
        surprise = sum(_surprise(facts, types, death) for death in group)
        as_bad = sum(_lost(other) >= _lost(group) for other in moments)
        if as_bad * exp(-surprise) <= 0.2:
            found += [Outage(death.machine, "died", death.moment, death.wakes) for death in group]
    return found


def _lost(group: list[Death]) -> int:
    return sum(death.lost for death in group)


def _gpu_attempts(facts: Facts, machine: str) -> list[Attempt]:
    return [one for one in facts.attempts if one.machine == machine and one.gpus]


def _suspects(facts: Facts, machine: str, until: int) -> list[Death]:
    """Moments at which attempts failed or lost their node, none ended otherwise, and silence of 3 hours followed."""
    mine = _gpu_attempts(facts, machine)
    signs: set[int] = set()
    for one in mine:
        moments = (one.began, one.recorded_end, one.window[0] if one.window else None)
        signs.update(moment for moment in moments if moment is not None)
    found = []
    for moment in sorted(signs):
        ended = [one.status for one in mine if one.recorded_end == moment and one.status != "interrupted"]
        wakes = min((sign for sign in signs if sign > moment), default=until)
        if ended and set(ended) <= {"failed", "node_fail"} and wakes - moment >= SURE_SILENCE:
            found.append(Death(machine, moment, wakes, len(ended)))
    return found


def _surprise(facts: Facts, types: dict[str, str | None], death: Death) -> float:
    """How surprising it is that none of the jobs that came to machines of its type meanwhile came to it."""
    came: dict[str, int] = {}  # first known begin of a job on a machine of the type
    to_it: set[str] = set()
    for machine, kind in types.items():
        if kind == types[death.machine]:
            for one in _gpu_attempts(facts, machine):
                if one.began is not None:
                    job = one.job.job_id
                    came[job] = min(came.get(job, one.began), one.began)
                    if machine == death.machine:
                        to_it.add(job)
    meanwhile = sum(death.moment + SURE_SILENCE < at < death.wakes for at in came.values())
    share = min(0.5, len(to_it) / len(came)) if came else 0.5
    return min(5.0, -meanwhile * log(1 - share))
