"""kill -9 before each call that changes a file: nothing acknowledged is lost or doubled, and the next command works."""

from __future__ import annotations

import random
from pathlib import Path

from attack.forks import Victims, missing
from attack.images import read_recording
from attack.score import Score


def run(tries: int, seed: int, folder: Path) -> Score:
    score = Score()
    if missing():
        score.measured["skipped"] = missing()
        return score
    chance = random.Random(seed)
    with Victims(folder) as victims:
        points = {name: _points(victims, name) for name in victims.scenarios}
        every = [(name, at) for name, count in points.items() for at in range(1, count + 1)]
        chosen = chance.sample(every, min(tries, len(every)))
        chosen += chance.choices(every, k=tries - len(chosen))
        for number, (name, at) in enumerate(chosen):
            victims.fresh(name)
            reported = victims.killed(name, at)
            where = f"{name}, killed at call {at}"
            if number % 4 == 3:
                # The one who comes next may be killed as well.
                again = chance.randint(1, points[name])
                reported += victims.killed(name, again)
                where += f" and then at call {again}"
            score.tries += 1
            for fault in victims.check(name, reported):
                score.fault(f"{where}: {fault}")
    score.measured["distinct points"] = f"{len(set(chosen))} of {len(every)}"
    return score


def _points(victims: Victims, name: str) -> int:
    victims.fresh(name)
    return sum(call.kind != "M" for call in read_recording(victims.record(name)))
