"""docs/ledger.md, "What the scheduler says": the states of machines, from snapshots and from its records of outages."""

from __future__ import annotations

import itertools
import json
import os
from collections.abc import Sequence
from pathlib import Path
from random import Random
from statistics import median

from oracle.deaths import Outage
from oracle.facts import HOUR, Facts, Snapshot
from oracle.making import local_of, shown_once, with_offset

DOWN = {
    "IDLE+DRAIN": "drained",
    "DOWN": "down",
    "IDLE+MAINTENANCE": "maintenance",
    "FAIL": "failed",
    "IDLE+NOT_RESPONDING": "not_responding",
}
OTHERS = {"IDLE+RESERVED": "reserved", "IDLE+POWERED_DOWN": "powered_down", "MIXED+DRAIN": "draining"}
UP = ("IDLE", "IDLE", "ALLOCATED", "MIXED", *OTHERS)


def make_states(rng: Random, facts: Facts, begin: int, end: int) -> None:
    """Snapshots of the machines of an inventory, records of outages, or both."""
    kind = rng.random()
    if kind < 0.7:
        times = _times(rng, begin, end)
        for name in sorted(facts.machines):
            for at in times:
                is_down = rng.random() < 0.3
                facts.snapshots.append(
                    Snapshot(
                        machine=name,
                        asked=at,
                        state=rng.choice(sorted(DOWN)) if is_down else rng.choice(UP),
                        reason_at=shown_once(at - rng.randint(-60, 9 * HOUR), facts.zone)
                        if is_down and rng.random() < 0.7
                        else None,
                        last_busy=shown_once(at - rng.randint(-60, 9 * HOUR), facts.zone)
                        if rng.random() < 0.5
                        else None,
                        slurmd_started=shown_once(at - rng.randint(-60, 9 * HOUR), facts.zone)
                        if rng.random() < 0.3
                        else None,
                    )
                )
        if rng.random() < 0.4:
            facts.pulled_from = times[0] - rng.randint(0, 12 * HOUR)
    if kind > 0.4:
        facts.events_asked = end + rng.randint(-12 * HOUR, HOUR)
        for name in rng.sample(sorted(facts.machines), k=rng.randint(1, len(facts.machines))):
            first = rng.randint(begin - HOUR, end - HOUR)
            for _ in range(rng.randint(1, 3)):
                ends = None if rng.random() < 0.2 else first + rng.randint(60, 9 * HOUR)
                facts.events.append((name, rng.choice(("DRAIN", "DOWN*", "DRNG", "FAIL")), first, ends))
                if ends is None:
                    break
                first = ends + rng.choice((0, rng.randint(60, 5 * HOUR)))


def _times(rng: Random, begin: int, end: int) -> list[int]:
    """Every so often, with a gap, and perhaps not to the end."""
    step, at, found = rng.choice((HOUR // 2, HOUR, 4 * HOUR)), begin + rng.randint(0, 6 * HOUR), list[int]()
    until = end if rng.random() < 0.5 else rng.randint(begin + 8 * HOUR, end)
    while at < until and len(found) < 14:
        found.append(at)
        at += step if rng.random() < 0.8 else rng.randint(step, 10 * step)
    return found or [begin]


def _held_seconds(facts: Facts) -> float:
    times = sorted({one.asked for one in facts.snapshots})
    gaps = [later - earlier for earlier, later in itertools.pairwise(times)]
    return max(3 * median(gaps) if gaps else 0, HOUR)


def _said(facts: Facts) -> dict[str, list[tuple[int, int, bool, bool]]]:
    """By machine, stretches of what the scheduler says: begin, end, whether it is down, whether its end is known."""
    held = _held_seconds(facts)
    found: dict[str, list[tuple[int, int, bool, bool]]] = {}
    for name, state, first, last in facts.events:
        ends = int(max(first, facts.events_asked) + held) if last is None else last
        begins = _drained_at(facts, name, first, ends) if state.startswith("DR") else first
        found.setdefault(name, []).append((first, begins, False, True))
        found.setdefault(name, []).append((begins, ends, True, last is not None))
    for name in {one.machine for one in facts.snapshots}:
        mine = sorted((one for one in facts.snapshots if one.machine == name), key=lambda one: one.asked)
        found.setdefault(name, []).extend(_stretches(mine, held, bool(facts.events)))
    return {name: sorted(one for one in mine if one[1] > one[0]) for name, mine in found.items()}


def _drained_at(facts: Facts, machine: str, first: int, last: int) -> int:
    """When the attempts that ran there as it began had ended."""
    mine = [one for one in facts.attempts if one.machine == machine and one.began is not None and one.began < first]
    ends = [
        last if one.recorded_end is None else min(one.recorded_end, last) for one in mine if one.status != "waiting"
    ]
    return max([first, *ends])


def said(facts: Facts) -> list[tuple[str, int, int]]:
    return [(name, first, last) for name, mine in _said(facts).items() for first, last, _, _ in mine]


def reported(facts: Facts, until: int) -> tuple[list[Outage], list[Outage]]:
    """Stretches in which the scheduler says that a machine is out of service, and those in which it said so before."""
    down, unknown = [], []
    for name, mine in _said(facts).items():
        for first, last, is_down, is_known in mine:
            if is_down:
                down.append(Outage(name, "reported", first, last))
                if not is_known:
                    unknown.append(
                        Outage(name, "silent", last, min((one[0] for one in mine if one[0] >= last), default=until))
                    )
    return down, unknown


def _stretches(mine: list[Snapshot], held: float, has_events: bool) -> list[tuple[int, int, bool, bool]]:
    words = [(DOWN | OTHERS).get(one.state, "up") for one in mine]
    begins = []
    for number, one in enumerate(mine):
        before = mine[number - 1].asked if number else None
        begin = one.asked
        if number and words[number] == words[number - 1]:
            pass
        elif words[number] in DOWN.values():
            stamp = one.asked if one.reason_at is None else max(one.reason_at, one.last_busy or 0)
            begin = min(one.asked, stamp)
            begin = begin if before is None else max(before, begin)
        elif before is not None and one.slurmd_started is not None and one.slurmd_started > before:
            begin = min(one.asked, one.slurmd_started)
        begins.append(begin)
    found = []
    for number, one in enumerate(mine):
        following = begins[number + 1] if number + 1 < len(mine) else None
        last = int(one.asked + held)
        is_known = following is not None and following <= last
        is_down = words[number] in DOWN.values()
        if has_events and (is_down or words[number] == "draining") and words[number] != "maintenance":
            continue
        found.append((begins[number], min(last, following) if following is not None else last, is_down, is_known))
    return found


def write_states(every: Sequence[Facts], folder: Path) -> None:
    rows = []
    for facts in every:
        for at in sorted({one.asked for one in facts.snapshots}):
            _write_snapshot(facts, at, folder)
        for name, state, first, last in facts.events:
            shown = [local_of(at, "UTC").strftime("%Y-%m-%dT%H:%M:%S") if at else "Unknown" for at in (first, last)]
            rows.append("|".join((facts.cluster, name, *shown, state, "a | b", "root(0)")))
        if rows:
            note = {"cluster": facts.cluster, "time_zone": "UTC", "since": "x"}
            note["asked_at"] = with_offset(facts.events_asked, "UTC")
            text = [f"# slurm {json.dumps(note)}", "Cluster|NodeName|TimeStart|TimeEnd|State|Reason|User", *rows]
            (folder / f"events-{facts.cluster}.txt").write_text("\n".join(text) + "\n")
            rows = []


def _write_snapshot(facts: Facts, at: int, folder: Path) -> None:
    mine = [one for one in facts.snapshots if one.asked == at]
    folder.mkdir(parents=True, exist_ok=True)
    if facts.pulled_from is None:
        nodes = [
            {
                "name": one.machine,
                "state": one.state.split("+"),
                "gres": _gres(facts, one.machine),
                "reason_changed_at": {"set": one.reason_at is not None, "number": one.reason_at or 0},
                "last_busy": one.last_busy or 0,
                "slurmd_start_time": one.slurmd_started or 0,
            }
            for one in mine
        ]
        path = folder / f"nodes-{facts.cluster}-{at}.json"
        path.write_text(json.dumps({"nodes": nodes, "meta": {"slurm": {"cluster": facts.cluster}}}))
        # The cluster is named after the nodes, as newer versions do.
        os.utime(path, (at, at))
        return
    note = {"cluster": facts.cluster, "time_zone": facts.zone, "asked_at": with_offset(at, "UTC")}
    lines = [f"# slurm {json.dumps(note | {'since': with_offset(facts.pulled_from, 'UTC')})}"]
    for one in mine:
        line = f"NodeName={one.machine} Gres={_gres(facts, one.machine)} State={one.state}"
        if one.slurmd_started is not None:
            line += f" SlurmdStartTime={_local(one.slurmd_started, facts.zone)}"
        if one.last_busy is not None:
            line += f" LastBusyTime={_local(one.last_busy, facts.zone)}"
        if one.reason_at is not None:
            line += f" Reason=x Y=z [root@{_local(one.reason_at, facts.zone)}]"
        lines.append(line)
    (folder / f"nodes-{facts.cluster}-{at}.txt").write_text("\n".join(lines) + "\n")


def _gres(facts: Facts, machine: str) -> str:
    kind, gpus = facts.machines[machine]
    return f"gpu:{kind}:{gpus}"


def _local(moment: int, zone: str) -> str:
    return local_of(moment, zone).strftime("%Y-%m-%dT%H:%M:%S")
