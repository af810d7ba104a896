"""A week of 16,000 GPUs: a part of them is landed hour by hour and built, and the rest is extrapolated from it."""

from __future__ import annotations

import csv
import io
import subprocess
from collections.abc import Iterator
from pathlib import Path

import duckdb
from deltalake import DeltaTable

from bench.data import Bench
from bench.lines import Line
from bench.measure import PROGRAMS, Cost, cpu_seconds, environment, run, together
from bench.telemetry import DAY, FILE, GPUS, INTERVAL_SECONDS, TICKS_A_DAY

NODES, DAYS, METRICS = 8, 7, 11
PART = 16_000 / (NODES * GPUS)  # how many times as many there are in all
ROUNDS = 20
TICKS_AN_HOUR = 3600 // INTERVAL_SECONDS
MOST_BYTES = 2.0
ROWS = NODES * GPUS * TICKS_A_DAY * DAYS
QUESTION = "SELECT gpu_id, avg(busy_ratio), max(power_watts), count(*) AS n FROM silver_gpu_samples{} GROUP BY ALL"
A_DAY = (
    " WHERE sampled_at >= TIMESTAMPTZ '2023-11-18 00:00:00+00' AND sampled_at < TIMESTAMPTZ '2023-11-19 00:00:00+00'"
)
COMPACTED = "SELECT count(*), coalesce(sum(seconds), 0) FROM runs WHERE step = 'compact'"


def week(bench: Bench) -> Iterator[Line]:
    folder = bench.folder("week")
    landed = [_landed(folder, day) for day in range(DAYS)]
    built = _gpulake(folder, "build")
    lake, samples = folder / "lake", ROWS * METRICS
    table = DeltaTable(lake / "bronze" / "bronze_gpu_metrics")
    sizes = table.get_add_actions()["size_bytes"].to_pylist()
    label = f"{NODES * GPUS} GPUs x {METRICS} metrics at {INTERVAL_SECONDS} s, {DAYS} days in {DAYS * 24} landings"
    yield Line(f"{label}: samples", samples, "", side="at least")
    yield Line(f"{label}: bytes a sample, as landed", sum(sizes) / samples, "", MOST_BYTES)
    build = lake / "builds" / (lake / "builds" / "CURRENT").read_text().strip()
    yield Line(f"{label}: bytes a sample, tables of the build", build.stat().st_size / samples, "")
    yield Line(f"{label}: files once small ones are compacted", len(sizes), "")
    times, seconds = _row(folder, COMPACTED)
    together_seconds = together(landed).cpu_seconds
    yield Line(f"{label}: landing, CPU seconds per million samples", together_seconds / samples * 1e6, "s")
    yield Line(f"{label}: compacting, {times} times, share of the time of landings", _share(seconds, landed), "%")
    yield Line(f"{label}: build, CPU seconds per million samples", built.cpu_seconds / samples * 1e6, "s")
    day, whole = (_asked(build, QUESTION.format(more)) for more in (A_DAY, ""))
    yield Line(f"{label}: a question of one day, CPU time", 1000 * day, "ms")
    yield Line(f"{label}: a question of all days, CPU time", 1000 * whole, "ms")
    extrapolated = f"16,000 GPUs, extrapolated from 1 in {PART:.0f}"
    yield Line(f"{extrapolated}: a week as landed", sum(sizes) * PART / 2**30, "GiB")
    yield Line(f"{extrapolated}: landing a day, CPU time", together_seconds / DAYS * PART / 3600, "h")
    yield Line(f"{extrapolated}: a question of one day, CPU time", day * PART, "s")


def _asked(build: Path, query: str) -> float:
    """CPU seconds, without the start of a process: that does not grow with the GPUs."""
    with duckdb.connect(build, read_only=True) as connection:
        connection.execute(query).fetchall()
        begin = cpu_seconds()
        for _ in range(ROUNDS):
            connection.execute(query).fetchall()
    return (cpu_seconds() - begin) / ROUNDS


def _share(seconds: str, landed: list[Cost]) -> float:
    return 100 * float(seconds) / together(landed).seconds


def _landed(folder: Path, day: int) -> Cost:
    """Lands a day as a file an hour, and removes them."""
    files: list[Path] = []
    for hour in range(24):
        ticks = f"range({hour * TICKS_AN_HOUR}, {(hour + 1) * TICKS_AN_HOUR}) AS ticks"
        query = DAY.replace(f"range({TICKS_A_DAY}) AS ticks", ticks)
        file = folder / f"day-{day}-{hour}" / FILE
        file.parent.mkdir()
        duckdb.execute(
            f"COPY ({query.replace('$nodes', str(NODES)).replace('$day', str(day))}) TO '{file}' (FORMAT json)"
        )
        files.append(file)
    cost = _gpulake(folder, "land", *files)
    for file in files:
        file.unlink()
    return cost


def _gpulake(folder: Path, *words: str | Path) -> Cost:
    return run([PROGRAMS / "gpulake", *words, "--lake", folder / "lake"], folder)


def _row(folder: Path, query: str) -> list[str]:
    command: list[str | Path] = [PROGRAMS / "gpulake", "sql", query, "--format", "csv", "--lake", folder / "lake"]
    done = subprocess.run(command, env=environment({}), capture_output=True, text=True, check=True)
    return list(csv.reader(io.StringIO(done.stdout)))[1]
