"""What scoring a thousand series with the default detector costs."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

from bench.lines import Line
from bench.measure import run

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


def detection(out: Path) -> Iterator[Line]:
    out.mkdir(exist_ok=True)
    cost = run([sys.executable, "-c", WEEK, str(SERIES), str(WEEK_MINUTES)], out)
    what = f"{SERIES:,} series, a week at a minute"
    yield Line(what, cost.seconds, "s")
    yield Line(f"{what}, peak memory", cost.mebibytes, "MiB", 2048)
