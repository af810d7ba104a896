"""The two sides: the reference's steps, each a process of its own, and our one command."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.data import Data
from bench.measure import PROGRAMS, BenchError, Cost, environment, run, together

REFERENCE = Path(__file__).parent / "reference"
TABLES = ("silver_jobs", "silver_gpu_timeseries", "gold_cluster_util_daily_scored")
_built: set[Path] = set()  # by this process


@dataclass(frozen=True)
class Run:
    cost: Cost
    steps: dict[str, float]  # seconds
    place: Path


def reference(data: Data, work: Path) -> Run:
    """pandas, `dbt run`, `dbt test`, fit, score. Prefect, which starts them in the original, is left out."""
    place = work / "reference"
    project, dbt = place / "dbt", PROGRAMS / "dbt"
    settings = {"DUCKDB_PATH": str(place / "telemetry.db"), "DBT_SEND_ANONYMOUS_USAGE_STATS": "false"}
    where: list[str | Path] = ["--project-dir", project, "--profiles-dir", project]
    if place not in _built:
        # A refresh is not the first one: dbt has parsed its project before.
        shutil.copytree(REFERENCE / "dbt", _empty(place) / "dbt")
        run([dbt, "parse", *where], project, settings)
        _built.add(place)
    (place / "telemetry.db").unlink(missing_ok=True)
    for folder in ("data_lake/bronze", "ml"):
        _empty(place / folder)
    costs = {
        "ingest": run([sys.executable, REFERENCE / "ingest.py", place, data.with_headers], place, settings),
        "dbt run": run([dbt, "run", *where], project, settings),
        "dbt test": run([dbt, "test", *where], project, settings),
        "fit": run([sys.executable, REFERENCE / "fit.py", place], place, settings),
        "score": run([sys.executable, REFERENCE / "score.py", place], place, settings),
    }
    return Run(together(list(costs.values())), {name: cost.seconds for name, cost in costs.items()}, place)


def ours(data: Data, work: Path) -> Run:
    """One command for the same tables, into a lake that is not there yet."""
    select = [word for table in TABLES for word in ("--select", table)]
    return _gpulake(work / "ours", ["refresh", *data.files, "--no-report", *select])


def everything(data: Data, work: Path) -> Run:
    """All of our tables, from all seven files and the GPU models."""
    return _gpulake(_place(data, work), ["refresh", data.trace, "--no-report"])


def whole_lake(data: Data, work: Path) -> Path:
    """A lake with all of our tables."""
    place = _place(data, work)
    return place / "lake" if place in _built else everything(data, work).place


def _place(data: Data, work: Path) -> Path:
    return work / f"everything-{data.rows}"


def landing(data: Data, work: Path, memory_limit: str) -> Run:
    return _gpulake(work / "landing", ["land", data.trace], {"GPULAKE_MEMORY_LIMIT": memory_limit})


def one_more_day(base: Path, day: Path, work: Path) -> tuple[Cost, Cost]:
    """An increment of the last day on all others, and a full build of the same files."""
    lake = _empty(work / "days") / "lake"
    _step(lake, "land", base)
    _step(lake, "build")
    _step(lake, "land", day)
    return _step(lake, "build"), _step(lake, "build", "--force")


def marts(lake: Path) -> dict[str, dict[str, Any]]:
    """What each side says of the seven marts, and how long it took; loading is not counted for either."""
    return {side: _marts(side, lake) for side in ("ours", "pandas")}


def _marts(side: str, lake: Path) -> dict[str, Any]:
    module = {"ours": "bench.marts.ours", "pandas": "bench.marts.frames"}[side]
    command = [sys.executable, "-m", module, str(lake)]
    done = subprocess.run(
        command, cwd=REFERENCE.parent.parent, env=environment({}), capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise BenchError(f"{' '.join(command)} exits {done.returncode}:\n{done.stderr[-4000:]}")
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


def _step(lake: Path, *arguments: str | Path) -> Cost:
    return run([PROGRAMS / "gpulake", *arguments, "--lake", lake], lake.parent)


def _gpulake(place: Path, arguments: list[str | Path], settings: dict[str, str] | None = None) -> Run:
    _empty(place)
    _built.add(place)
    lake = place / "lake"
    cost = run([PROGRAMS / "gpulake", *arguments, "--lake", lake], place, settings)
    steps: dict[str, float] = {}
    for line in (lake / "runs.jsonl").read_text(encoding="utf-8").splitlines():
        step = json.loads(line)
        steps[step["step"]] = steps.get(step["step"], 0.0) + step["seconds"]
    return Run(cost, steps, lake)


def _empty(folder: Path) -> Path:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    return folder
