"""Telemetry of GPUs at 30 s: what landing and building it costs, and another day on top."""

from __future__ import annotations

import math
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import duckdb

from bench.data import Bench
from bench.lines import Line, cpu_ratio
from bench.measure import PROGRAMS, BenchError, Cost, environment, interleaved, run, together

GPUS = 8
INTERVAL_SECONDS = 30
TICKS_A_DAY = 86_400 // INTERVAL_SECONDS
MOST_MEBIBYTES = 2048
MOST_SECONDS = 10
FILE = "gpu_metrics.jsonl"
DAY = f"""
SELECT 1700006400000 + (day * {TICKS_A_DAY} + tick) * {INTERVAL_SECONDS * 1000} AS ts_ms,
    format('node-{{:03}}', node) AS node, format('GPU-{{:08x}}-{{:08x}}', gpu, node) AS gpu_uuid, gpu AS gpu_index,
    'NVIDIA H100 80GB HBM3' AS gpu_name, format('00000000:{{:02X}}:00.0', gpu + 16) AS pci_bus_id,
    round(seen / 1000, 3) AS gpu_busy_ratio, seen * 80000000 AS memory_used_bytes, 85899345920 AS memory_total_bytes,
    round(70 + 0.6 * seen, 1) AS power_watts, 700.0 AS power_limit_watts,
    (day * {TICKS_A_DAY} + tick) * {INTERVAL_SECONDS * 400} AS energy_joules_total,
    30 + seen // 25 AS temperature_celsius, 1980000000 AS sm_clock_hertz, 0 AS clock_event_reasons,
    0 AS ecc_corrected_total, 0 AS pcie_replays_total
FROM (
    -- The GPUs of a node work on one job at a time, for two hours.
    SELECT *, (hash(node, tick // 240, day) % 900 + hash(tick, gpu) % 30)::BIGINT AS seen
    FROM range($nodes) AS nodes (node), range({GPUS}) AS gpus (gpu), range({TICKS_A_DAY}) AS ticks (tick)
    CROSS JOIN (SELECT $day AS day)
)
"""
# What a user of pandas would do with a day of it.
PANDAS = """
import sys
import pandas as pd
frame = pd.read_json(sys.argv[1], lines=True)
print(frame.groupby(["node", "gpu_uuid"]).agg("mean", numeric_only=True).to_string())
"""


@dataclass(frozen=True)
class Size:
    nodes: int
    days: int
    most_mebibytes: float | None = None
    most_seconds: float | None = None

    @property
    def day(self) -> int:
        return self.nodes * GPUS * TICKS_A_DAY


SMOKE, SMALL, FULL = Size(2, 2), Size(8, 7), Size(256, 30, MOST_MEBIBYTES, MOST_SECONDS)


def small_telemetry(bench: Bench) -> Iterator[Line]:
    yield from _telemetry(bench, SMOKE if bench.is_smoke else SMALL)


def full_telemetry(bench: Bench) -> Iterator[Line]:
    yield from _telemetry(bench, FULL)


def _telemetry(bench: Bench, size: Size) -> Iterator[Line]:
    folder = bench.folder("telemetry")
    gpulake, last = partial(_gpulake, folder), size.days - 1
    quarter = size.days // 4
    landings = [_landed(folder, size, day) for day in range(quarter)]
    part = gpulake("build") if quarter else None
    landings += [_landed(folder, size, day) for day in range(quarter, last)]
    first = gpulake("build", "--force")
    landings.append(_landed(folder, size, last, is_kept=True))
    added = gpulake("build")
    whole = gpulake("build", "--force")
    _check(folder, size)
    label = f"{size.nodes} nodes x {GPUS} GPUs, {size.days} days at {INTERVAL_SECONDS} s"
    yield Line(f"{label}: samples", size.day * size.days, "", side="at least")
    landed = together(landings)
    yield Line(f"{label}: landing, rows per CPU-second", size.day * size.days / landed.cpu_seconds, "", side="at least")
    yield Line(f"{label}: build", whole.seconds, "s")
    yield Line(f"{label}: build, CPU time", whole.cpu_seconds, "s")
    if part:
        yield _growth(label, part, whole, size.days / quarter, _fixed(folder / "least"))
    peak = max(cost.mebibytes for cost in (landed, first, added, whole))
    yield Line(f"{label}: peak memory", peak, "MiB", size.most_mebibytes)
    yield Line(f"{label}: build of another day", added.seconds, "s", size.most_seconds)
    yield Line(f"{label}: build of another day, CPU time", added.cpu_seconds, "s")
    yield cpu_ratio(f"{label}: another day, times less CPU than a full build", whole.cpu_seconds, added.cpu_seconds)
    if size is not FULL:
        (peer,) = interleaved(1, lambda: run([sys.executable, "-c", PANDAS, folder / f"day-{last}" / FILE], folder))
        theirs = peer.cpu_seconds * size.days
        yield cpu_ratio(f"{label}: CPU ratio to reading it with pandas", theirs, landed.cpu_seconds + whole.cpu_seconds)
    shutil.rmtree(folder)


def _growth(label: str, part: Cost, whole: Cost, times: float, fixed: Cost) -> Line:
    low, high = (max(cost.cpu_seconds - fixed.cpu_seconds, 1e-3) for cost in (part, whole))
    exponent = math.log(high / low) / math.log(times)
    return Line(f"{label}: exponent of the build's CPU seconds in samples, less the fixed cost", exponent, "")


def _fixed(folder: Path) -> Cost:
    """A build of a day of one node."""
    folder.mkdir()
    _landed(folder, Size(1, 1), 0)
    return _gpulake(folder, "build")


def _gpulake(folder: Path, *words: str | Path) -> Cost:
    return run([PROGRAMS / "gpulake", *words, "--lake", folder / "lake"], folder)


def _landed(folder: Path, size: Size, day: int, is_kept: bool = False) -> Cost:
    """Lands a day as one file, and removes the file: all of them together would fill a disk."""
    file = folder / f"day-{day}" / FILE
    file.parent.mkdir()
    query = DAY.replace("$nodes", str(size.nodes)).replace("$day", str(day))
    duckdb.execute(f"COPY ({query}) TO '{file}' (FORMAT json)")
    cost = _gpulake(folder, "land", file)
    if not is_kept:
        file.unlink()
    return cost


def _check(folder: Path, size: Size) -> None:
    """All samples must be in silver, and the figures of the gold tables must be of all days."""
    query = "SELECT count(*), count(DISTINCT gpu_id) FROM silver_gpu_samples"
    command = [str(PROGRAMS / "gpulake"), "sql", query, "--format", "csv", "--lake", str(folder / "lake")]
    found = subprocess.run(
        command, env=environment({}), capture_output=True, text=True, check=True
    ).stdout.splitlines()[1]
    if found != f"{size.day * size.days},{size.nodes * GPUS}":
        raise BenchError(
            f"samples and GPUs in silver are {found}, landed {size.day * size.days} of {size.nodes * GPUS}"
        )
