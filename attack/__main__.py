"""`scripts/attack [SUITE ...]`: run the suites; at full length their figures go to docs/reliability.md."""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path

from attack import record, suites


def main() -> int:
    ask = argparse.ArgumentParser(prog="scripts/attack", description=__doc__)
    ask.add_argument("suite", nargs="*", choices=[*suites.LONG, []], help="which (all)")
    ask.add_argument("--tries", type=int, help="how many of each (the long form's number)")
    ask.add_argument("--seed", type=int, default=1)
    given = ask.parse_args()
    faults = 0
    for name in given.suite or suites.LONG:
        begin = time.perf_counter()
        with tempfile.TemporaryDirectory(prefix=f"attack-{name}-") as folder:
            score = suites.load(name)(given.tries or suites.LONG[name], given.seed, Path(folder))
        seconds = time.perf_counter() - begin
        faults += len(score.faults)
        print(f"{name}: {score.tries:,} tries, {len(score.faults):,} faults, {seconds:.0f} s", flush=True)
        for line in score.faults[:20]:
            print(f"  {line}", flush=True)
        if not given.tries:
            record.write(name, score, seconds)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
