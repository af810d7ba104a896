"""Power cuts at every system call, on every kind of disk image that may be left: nothing acknowledged is lost."""

from __future__ import annotations

import random
from pathlib import Path

from attack.forks import Victims, missing
from attack.images import STATES, Call, Disk, read_recording
from attack.score import Score


def run(tries: int, seed: int, folder: Path) -> Score:
    score = Score()
    if missing():
        score.measured["skipped"] = missing()
        return score
    chance = random.Random(seed)
    with Victims(folder) as victims:
        for place, name in enumerate(victims.scenarios):
            share = tries // len(victims.scenarios) + (place < tries % len(victims.scenarios))
            _cut(victims, name, share, chance, score)
    score.measured["images"] = ", ".join(STATES)
    return score


def _cut(victims: Victims, name: str, tries: int, chance: random.Random, score: Score) -> None:
    """Cuts the power before calls of one recording, and at its end: there all of it has been acknowledged."""
    root = victims.fresh(name)
    disk = Disk(root)
    calls = read_recording(victims.record(name))
    cuts = _chosen(len(calls), tries, chance)
    reported: list[str] = []
    for number, call in enumerate([*calls, Call("end", 0, 0, Path(), Path(), b"")]):
        for state in cuts.get(number, ()):
            disk.write(root, state, chance)
            score.tries += 1
            for fault in victims.check(name, reported):
                score.fault(f"{name}, power cut before call {number} ({call.kind} {call.one.name}), {state}: {fault}")
        if call.kind == "M":
            reported.append(call.data.decode())
        elif call.kind != "end":
            disk.play(call)


def _chosen(calls: int, tries: int, chance: random.Random) -> dict[int, list[str]]:
    """By the number of the call, the images to try. The end comes first, and every kind of image."""
    every = [(calls, state) for state in STATES]
    rest = [(number, state) for number in range(calls) for state in STATES]
    every += chance.sample(rest, len(rest))
    chosen: dict[int, list[str]] = {}
    for number, state in every[:tries]:
        chosen.setdefault(number, []).append(state)
    return chosen
