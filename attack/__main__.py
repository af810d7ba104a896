"""`scripts/attack [SUITE ...]`: run the suites at full length and write docs/reliability.md's table."""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path

from attack import record, suites
from attack.score import Score


def main() -> int:
    ask = argparse.ArgumentParser(prog="scripts/attack", description=__doc__)
    ask.add_argument("suite", nargs="*", choices=[*suites.LONG, []], help="which (all)")
    ask.add_argument("--tries", type=int, help="how many of each (the long form's number)")
    ask.add_argument("--seed", type=int, default=1)
    given = ask.parse_args()
    scores: dict[str, tuple[Score, float]] = {}
    for name in given.suite or suites.LONG:
        begin = time.perf_counter()
        with tempfile.TemporaryDirectory(prefix=f"attack-{name}-") as folder:
            score = suites.load(name)(given.tries or suites.LONG[name], given.seed, Path(folder))
        scores[name] = score, time.perf_counter() - begin
        print(f"{name}: {score.tries:,} tries, {len(score.faults):,} faults, {scores[name][1]:.0f} s", flush=True)
        for line in score.faults[:20]:
            print(f"  {line}", flush=True)
    if not given.suite and not given.tries:
        record.write(scores)
    return 1 if any(score.faults for score, _ in scores.values()) else 0


if __name__ == "__main__":
    sys.exit(main())
