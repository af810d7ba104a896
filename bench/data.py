"""Generated traces, kept under bench/out and keyed by jobs and seed."""

from __future__ import annotations

import hashlib
import json
import shutil
import sys
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path

import gpulake
from bench.measure import PROGRAMS, Cost, run

FULL_JOBS = 1_055_501
LEAST_JOBS = 1_000
NOTE = "made.json"
# In the order in which the reference reads them.
TABLES = ("pai_job_table", "pai_instance_table", "pai_machine_metric", "pai_machine_spec")
GPU_SPECS = "tpu_gpus.csv"


@dataclass(frozen=True)
class Data:
    trace: Path  # as published: seven tables without header rows, and the GPU models
    with_headers: Path  # the five files that the reference reads, as it reads them
    rows: int  # of those five
    synth: Cost
    is_current: bool  # made by the generator as it is now

    @property
    def files(self) -> list[Path]:
        return [*(self.with_headers / f"{table}.csv" for table in TABLES), self.with_headers / GPU_SPECS]


@dataclass(frozen=True)
class Bench:
    """What every part gets: where to work, which traces, and whether a short run is asked for."""

    out: Path
    seed: int = 0
    is_fresh: bool = False
    is_smoke: bool = False
    seconds: int = 600  # of what is measured over a time

    @property
    def scales(self) -> tuple[float, ...]:
        """Shares of the published trace."""
        return (0.01, 0.1) if self.is_smoke else (0.01, 0.1, 1.0)

    @property
    def work(self) -> Path:
        return self.out / "work"

    def folder(self, name: str) -> Path:
        """An empty one."""
        folder = self.work / name
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        return folder

    def trace(self, scale: float) -> Data:
        return _trace(self.out / "data", jobs_at(scale), self.seed, self.is_fresh)


def jobs_at(scale: float) -> int:
    return max(LEAST_JOBS, round(FULL_JOBS * scale))


@cache
def _trace(out: Path, jobs: int, seed: int, is_fresh: bool) -> Data:
    """The trace of so many jobs; generated once a run where it is to be fresh, else if it is not there yet."""
    folder = out / f"jobs-{jobs}-seed-{seed}"
    note = folder / NOTE
    if is_fresh or not note.exists():
        shutil.rmtree(folder, ignore_errors=True)
        _make(folder, jobs, seed)
    made = json.loads(note.read_text(encoding="utf-8"))
    is_current = made["generator"] == _generator()
    if not is_current:
        print(f"{folder.name} was made by another version of synth; --fresh makes it again", file=sys.stderr)
    return Data(folder / "trace", folder / "with_headers", made["rows"], Cost(**made["synth"]), is_current)


def _make(folder: Path, jobs: int, seed: int) -> None:
    trace, with_headers = folder / "trace", folder / "with_headers"
    with_headers.mkdir(parents=True)
    generator = _generator()
    cost = run([PROGRAMS / "gpulake", "synth", "--out", trace, "--jobs", str(jobs), "--seed", str(seed)], folder)
    for table in TABLES:
        with (with_headers / f"{table}.csv").open("wb") as out:
            for part in (f"{table}.header", f"{table}.csv"):
                with (trace / part).open("rb") as source:
                    shutil.copyfileobj(source, out, 1 << 20)
    shutil.copy(trace / GPU_SPECS, with_headers)
    rows = sum(_lines(file) - 1 for file in with_headers.iterdir())
    made = {"synth": asdict(cost), "rows": rows, "generator": generator}
    (folder / NOTE).write_text(json.dumps(made), encoding="utf-8")


def _lines(file: Path) -> int:
    with file.open("rb") as source:
        return sum(block.count(b"\n") for block in iter(lambda: source.read(1 << 20), b""))


def _generator() -> str:
    """Which version of the generator this is."""
    digest = hashlib.sha256()
    for file in sorted((Path(gpulake.__path__[0]) / "synth").iterdir()):
        if file.is_file():
            digest.update(file.read_bytes())
    return digest.hexdigest()
