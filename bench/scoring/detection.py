"""Scores the default detector on labelled series, beside a forest, a z-score and chance. The last line is JSON."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from bench.scoring.report import as_text, bars, measure
from bench.scoring.sets import read_cases
from gpulake.core.errors import GpulakeError


def main() -> int:
    parser = argparse.ArgumentParser(prog="scripts/score detect", description=__doc__)
    parser.add_argument("--data", type=Path, required=True, help="a folder with nab/, smd/ or asd/, or one of these")
    parser.add_argument("--interval", type=float, default=60.0, help="seconds between rows of sets without times [60]")
    options = parser.parse_args()
    try:
        found = measure(read_cases(options.data, int(options.interval * 1000)))
    except GpulakeError as error:
        sys.stderr.write(f"error: {error.message}\nhint: {error.hint}\n")
        return error.exit_code
    document = {"sets": found, "bars": bars(found)}
    sys.stdout.write(f"{as_text(found)}\n{json.dumps(document)}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
