"""What scoring a thousand series with the default detector costs, and how well it finds what is known."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

from bench.data import Bench
from bench.lines import Line
from bench.measure import interleaved, run
from bench.scoring import traces
from bench.scoring.report import LEAST_GAIN, bars, measure
from bench.scoring.sets import read_cases

TRACE_JOBS, TRACE_SEED = 8_000, 0
LEAST_RECALL = 0.8
SERIES = 1_000
WEEK_MINUTES = 7 * 24 * 60
# In a process of its own, so that its peak memory can be measured.
WEEK = """
import sys
import numpy as np
from gpulake.detect.detectors.surprise import Surprise
from gpulake.detect.series import Series
count, minutes = int(sys.argv[1]), int(sys.argv[2])
random, detector = np.random.default_rng(0), Surprise()
times = np.arange(minutes, dtype=np.int64) * 60_000
flagged = 0
for place in range(count):
    series = Series(str(place), ("value",), times, random.standard_normal((minutes, 1)), 60_000)
    flagged += int(detector.score(series).is_flagged.sum())
print(flagged)
"""


def detection(bench: Bench) -> Iterator[Line]:
    folder = bench.folder("detection")
    (cost,) = interleaved(2, lambda: run([sys.executable, "-c", WEEK, str(SERIES), str(WEEK_MINUTES)], folder))
    what = f"{SERIES:,} series, a week at a minute"
    yield Line(what, cost.seconds, "s")
    yield Line(f"{what}, CPU time", cost.cpu_seconds, "s")
    yield Line(f"{what}, peak memory", cost.mebibytes, "MiB", 2048)
    yield from _found()
    yield from _ahead()


def _found() -> Iterator[Line]:
    """Injected incidents on one generated trace; docs/detection.md has many."""
    score = traces.document([traces.generated(TRACE_JOBS, TRACE_SEED, 1.0)])
    what = f"incidents injected in a trace of {TRACE_JOBS:,} jobs"
    yield Line(f"{what}: share found", score["recall"], "", LEAST_RECALL, "at least")
    yield Line(f"{what}: false alarms", score["false_alarms"], "")


def _ahead() -> Iterator[Line]:
    """VUS-PR of the default detector beside the reference's forest, on the labelled series."""
    data = os.environ.get("GPULAKE_REAL_DATA")
    if not data:
        print("GPULAKE_REAL_DATA is not set: the labelled series are not scored", file=sys.stderr)
        return
    found = measure(read_cases(Path(data), 60_000))
    bars_of = bars(found)
    for name, figures in found.items():
        if (value := figures["ours"]["vus_pr"]) is not None:
            yield Line(f"{name}: VUS-PR", value, "", side="at least")
        if (share := figures["ours"]["events_found_ratio"]) is not None:
            yield Line(f"{name}: share of events found", share, "", side="at least")
    yield Line(
        "VUS-PR over that of an isolation forest",
        bars_of["vus_pr_over_forest_on_average"],
        "",
        LEAST_GAIN,
        "at least",
    )
