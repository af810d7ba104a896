"""Mutated files to every reader and parser: no traceback, no hang over 30 s, memory within the limit + 300 MiB."""

from __future__ import annotations

import json
import os
import random
import resource
import select
import shutil
import subprocess
import sys
import tempfile
import traceback
from pathlib import Path
from typing import Any

from attack import guided
from attack.mutation import mutated
from attack.score import Score, peak_mib

HANG_SECONDS = 30
GUIDED_SHARE = 5  # as many more, of five tries one, are led by what they cover
MOST_MIB = 300 + 200  # above the engine's limit of attack.targets
ROOT = Path(__file__).parents[1]


def run(tries: int, seed: int, folder: Path) -> Score:
    """In a child, which is begun anew behind each try that killed it or held it up."""
    score = Score(tries)
    found: dict[str, tuple[int, str]] = {}
    done = peak = 0
    slowest = 0.0
    while done < tries:
        child = _Child(seed, done, tries, folder)
        for reported in child.reports():
            done = max(done, reported["try"])
            if "fault" in reported:
                count, first = found.get(
                    reported["fault"], (0, f"try {reported['try']} of seed {seed}: {reported['what']}")
                )
                found[reported["fault"]] = count + 1, first
            peak, slowest = max(peak, reported.get("mib", 0)), max(slowest, reported.get("seconds", 0.0))
        if child.end:
            found[f"{child.end} {done}"] = 1, f"try {done} of seed {seed}: {child.end}"
            done += 1
    for count, first in found.values():
        score.fault(f"{first} ({count} times)")
    if peak > MOST_MIB:
        score.fault(f"the peak of memory is {peak} MiB; {MOST_MIB} are allowed")
    score.measured |= {"peak": f"{peak} MiB", "slowest": f"{slowest:.1f} s"}
    score.measured["coverage-guided"] = guided.attack(tries // GUIDED_SHARE, seed, folder, score.fault)
    return score


class _Child:
    def __init__(self, seed: int, begin: int, tries: int, folder: Path) -> None:
        self.end = ""  # what became of it, if not its work
        command = [sys.executable, "-X", "faulthandler", "-m", "attack.inputs", *map(str, (seed, begin, tries, folder))]
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])}
        # What a reader says on the way is of no interest; what it dies of is.
        self._words = tempfile.TemporaryFile()  # noqa: SIM115 - closed with the process
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=self._words, cwd=ROOT, env=environment)

    def reports(self) -> Any:
        assert self._process.stdout
        output = self._process.stdout.fileno()
        held = b""
        with self._process, self._words:
            while select.select([output], [], [], HANG_SECONDS)[0]:
                more = os.read(output, 1 << 16)
                if not more:
                    break
                *lines, held = (held + more).split(b"\n")
                yield from map(json.loads, lines)
            else:
                self.end = f"a hang of more than {HANG_SECONDS} s"
                self._process.kill()
            if self._process.wait() and not self.end:
                self._words.seek(0)
                last = self._words.read().decode(errors="replace").strip().splitlines()[-12:]
                self.end = f"killed by {self._process.returncode}: {' | '.join(last)}"


def main() -> None:
    from attack.targets import targets
    from gpulake.core.errors import GpulakeError

    seed, begin, tries, place = *map(int, sys.argv[1:4]), Path(sys.argv[4])
    place.mkdir(parents=True, exist_ok=True)
    known = targets(place)
    chosen = [target for target in known for _ in range(target.weight)]
    every = [content for target in known for _, content in target.seeds]
    for number in range(begin, tries):
        rng = random.Random(f"{seed}:{number}")
        target = chosen[number % len(chosen)]
        name, content = rng.choice(target.seeds)
        _say({"try": number})
        folder = place / "try"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        path = folder / name
        path.write_bytes(mutated(rng, content, rng.choice(every)))
        before = resource.getrusage(resource.RUSAGE_SELF)
        reported: dict[str, Any] = {"try": number}
        try:
            target.read(path)
        except GpulakeError:
            pass
        except Exception as error:  # noqa: BLE001 - that is what is looked for
            last = traceback.extract_tb(error.__traceback__)[-1]
            where = next(
                (one for one in reversed(traceback.extract_tb(error.__traceback__)) if "gpulake" in one.filename), last
            )
            reported["fault"] = f"{target.name} {type(error).__name__} {where.filename}:{where.lineno}"
            reported["what"] = (
                f"{target.name}: {name}: {type(error).__name__}: {str(error)[:120]} at {where.filename}:{where.lineno}"
            )
        after = resource.getrusage(resource.RUSAGE_SELF)
        reported["seconds"] = after.ru_utime - before.ru_utime
        reported["mib"] = peak_mib()
        if "fault" in reported or number % 100 == 0 or reported["seconds"] > 1:
            _say(reported)
    _say({"try": tries})


def _say(reported: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(reported) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
