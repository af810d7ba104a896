"""Runs the benchmark, prints what it found beside the bars, writes bench/out/results.json and docs/performance.md."""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import asdict
from pathlib import Path

from bench.collector import collector
from bench.detection import detection
from bench.diagnose import diagnose
from bench.landing import landing
from bench.lines import as_text
from bench.measure import BenchError
from bench.record import write
from bench.serving import serving
from bench.suite import Suite

OUT = Path(__file__).parent / "out"
SCALES = [0.01, 0.1, 1.0]


def main() -> int:
    options = _options()
    suite = Suite(OUT, options.seed, options.fresh)
    scales = SCALES[:1] if options.quick else sorted(set(options.scale or SCALES))
    try:
        parts = (
            (options.collector, collector(OUT)),
            (options.detect, detection(OUT)),
            (options.diagnose, diagnose(OUT, options.seed)),
            (options.landing, landing(OUT, options.seed)),
            (options.serve, serving(OUT, options.seed, options.lake)),
        )
        for is_asked, part in parts:
            if is_asked:
                print(as_text(list(part)))
                return 0
        suite.compare(scales)
        suite.start_up(scales[0])
        if not options.quick:
            suite.whole(scales[-1])
            suite.marts(scales)
            suite.one_more_day(scales[-1])
            suite.add(landing(OUT, options.seed))
            suite.add(collector(OUT))
            suite.add(detection(OUT))
            suite.add(diagnose(OUT, options.seed))
            suite.add(serving(OUT, options.seed, options.lake))
    except BenchError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    lines = suite.lines()
    document = {"lines": [asdict(line) for line in lines], "runs": suite.runs}
    (OUT / "results.json").write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    print(as_text(lines))
    write(lines)
    return 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="bench", description=__doc__)
    parser.add_argument(
        "--scale", type=float, nargs="+", metavar="SHARE", help="shares of the published trace [default: 0.01 0.1 1]"
    )
    parser.add_argument("--quick", action="store_true", help="only 1 %% of the trace, and the start-up times")
    parser.add_argument("--collector", action="store_true", help="only the collector")
    parser.add_argument("--detect", action="store_true", help="only detection")
    parser.add_argument("--diagnose", action="store_true", help="only reading and diagnosing a log")
    parser.add_argument("--landing", action="store_true", help="only landing of text formats")
    parser.add_argument("--serve", action="store_true", help="only the dashboard")
    parser.add_argument("--lake", type=Path, help="for --serve: a lake that is there, and not one of the full trace")
    parser.add_argument("--seed", type=int, default=0, help="of the generated trace")
    parser.add_argument("--fresh", action="store_true", help="generate the traces again")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
