"""What a command costs before it does anything: start-up, a build of two rows, and the demo."""

from __future__ import annotations

import itertools
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

from bench import sides
from bench.data import Bench
from bench.lines import Line, cpu_ratio
from bench.measure import PROGRAMS, Cost, interleaved, run

ROUNDS = 10
SMOKE_ROUNDS = 5
DEMO_ROUNDS = 2
JOBS = "pai_job_table.csv"
LIBRARIES = "import click, duckdb, pyarrow"


def startup(bench: Bench) -> Iterator[Line]:
    """Beside an interpreter that imports the libraries which most commands need."""
    lake = sides.whole_lake(bench.trace(bench.scales[0]), bench.work)
    two = _two_rows(bench)
    commands: dict[str, tuple[list[str | Path], float]] = {
        "gpulake --help": (["--help"], 0.15),
        "gpulake sql 'select 1'": (["sql", "select 1", "--lake", lake], 0.35),
        "gpulake refresh, two rows": (["refresh", two, "--no-report", "--lake", two.parent / "lake"], 0.8),
    }
    costs = interleaved(
        SMOKE_ROUNDS if bench.is_smoke else ROUNDS,
        lambda: libraries(two.parent),
        *(lambda words=words: _started(two.parent, words) for words, _ in commands.values()),
    )
    peer = costs.pop(0)
    yield Line(f"python -c '{LIBRARIES}'", peer.seconds, "s", kind="peer")
    for (what, (_, bar)), cost in zip(commands.items(), costs, strict=True):
        yield Line(what, cost.seconds, "s", bar)
        yield Line(f"{what}, CPU time", cost.cpu_seconds, "s")
        yield cpu_ratio(f"{what}, CPU ratio to importing click, duckdb and pyarrow", peer.cpu_seconds, cost.cpu_seconds)
    if not bench.is_smoke:
        (demo,) = interleaved(
            DEMO_ROUNDS, lambda: _started(two.parent, ["demo", "--trace", "pai", "--out", two.parent / "demo"])
        )
        yield Line("gpulake demo", demo.seconds, "s", 6)
        yield Line("gpulake demo, CPU time", demo.cpu_seconds, "s")


def libraries(folder: Path) -> Cost:
    """What the start of any command is compared with."""
    return run([sys.executable, "-c", LIBRARIES], folder)


def _started(folder: Path, words: list[str | Path]) -> Cost:
    """Into a lake or a folder that is not there yet."""
    for name in ("lake", "demo"):
        shutil.rmtree(folder / name, ignore_errors=True)
    return run([PROGRAMS / "gpulake", *words], folder)


def _two_rows(bench: Bench) -> Path:
    file = bench.folder("startup") / JOBS
    with (bench.trace(bench.scales[0]).with_headers / JOBS).open(encoding="utf-8") as source:
        file.write_text("".join(itertools.islice(source, 3)), encoding="utf-8")
    return file
