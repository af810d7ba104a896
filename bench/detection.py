"""What scoring ten thousand series costs: a week at once, and a minute as it comes."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path

from bench.lines import Line
from bench.measure import run

SERIES = 10_000
WEEK_MINUTES = 7 * 24 * 60
# In processes of their own, so that what they take is theirs.
WEEK = """
import sys
import numpy as np
from gpulake.detect.stream import score_rows
series, minutes = int(sys.argv[1]), int(sys.argv[2])
random = np.random.default_rng(0)
times = np.arange(minutes, dtype=np.int64) * 60_000
values = np.empty((series, minutes), dtype=np.float32)
for row in values:
    row[:] = random.standard_normal(minutes, dtype=np.float32)
scores, flags = score_rows(times, values, 60_000)
print(float(flags.mean()))
"""
MINUTE = """
import json, sys, time
from pathlib import Path
import numpy as np
from gpulake.detect.stream import Stream
series, minutes = int(sys.argv[1]), int(sys.argv[2])
random = np.random.default_rng(0)
stream = Stream(series, 60_000)
for minute in range(minutes):
    stream.update(minute * 60_000, random.standard_normal(series))
state, took = Path("stream.parquet"), []
stream.save(state)
for minute in range(minutes, minutes + 5):
    values = random.standard_normal(series)
    begin = time.perf_counter()
    stream = Stream.load(state)
    stream.update(minute * 60_000, values)
    stream.save(state)
    took.append(time.perf_counter() - begin)
print(json.dumps({"seconds": max(took), "bytes": state.stat().st_size}))
"""


def detection(out: Path) -> Iterator[Line]:
    out.mkdir(exist_ok=True)
    cost = run([sys.executable, "-c", WEEK, str(SERIES), str(WEEK_MINUTES)], out)
    what = f"{SERIES:,} series, a week at a minute"
    yield Line(what, cost.seconds, "s", 300)
    yield Line(f"{what}, peak memory", cost.mebibytes, "MiB", 2048)
    run([sys.executable, "-c", MINUTE, str(SERIES), "300"], out)
    told = json.loads((out / "last.log").read_text(encoding="utf-8").splitlines()[-1])
    yield Line(f"{SERIES:,} series, one more minute, state read and written", told["seconds"], "s", 1)
    yield Line(f"{SERIES:,} series, size of the state", told["bytes"] / 2**20, "MiB")
