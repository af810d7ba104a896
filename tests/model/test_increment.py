"""A build made in steps is the build made at once, however the rows come in."""

from __future__ import annotations

import csv
import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from conftest import rows_of
from gpulake.core.config import Config
from gpulake.flow import Flow
from gpulake.lake import Lake
from gpulake.synth import TraceSummary
from lake_cache import copied
from repeating import assert_alike

# The column that says to which job a row belongs, and the one with its latest time.
TABLES = {
    "pai_job_table": (0, 5),
    "pai_task_table": (0, 5),
    "pai_instance_table": (0, 7),
    "pai_sensor_table": (0, None),
    "pai_group_tag_table": (None, None),
    "pai_machine_metric": (None, 3),
}
WHOLE = ("pai_machine_spec", "tpu_gpus")


def read(path: Path) -> list[list[str]]:
    with path.open(newline="") as file:
        return list(csv.reader(file))


def write(path: Path, rows: list[list[str]], line_end: str = "\n") -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", newline="") as file:
        csv.writer(file, lineterminator=line_end).writerows(rows)


def split(trace: Path, out: Path, seed: int, overlap: float = 0.0) -> Iterator[Path]:
    """Three folders: nearly all jobs, then the two last days; one row in fifty comes in a later folder than its own.

    Those that overlap have the last rows of the folder before once more, and the line ends of Windows.
    """
    draw = random.Random(seed)
    jobs = {row[0]: float(row[5] or row[4]) for row in read(trace / "pai_job_table.csv")}
    ends = sorted(jobs.values())
    cuts = [ends[int(len(ends) * share)] for share in (0.94, 0.98)]
    begins = [0.0, *(ends[int(len(ends) * (share - overlap))] for share in (0.94, 0.98))]
    for name, (job_column, time_column) in TABLES.items():
        parts: list[list[list[str]]] = [[], [], []]
        for row in read(trace / f"{name}.csv"):
            time = row[time_column] if time_column is not None else ""
            moment = jobs[row[job_column]] if job_column is not None else float(time or 0)
            part = sum(moment >= cut for cut in cuts)
            parts[draw.randint(part, 2) if draw.random() < 0.02 else part].append(row)
            for later in range(part + 1, 3):
                if moment >= begins[later] and overlap:
                    parts[later].append(row)
        for number, rows in enumerate(parts):
            write(out / str(number) / f"{name}.csv", rows, "\r\n" if overlap and number else "\n")
    for name in WHOLE:
        (out / "0" / f"{name}.csv").write_bytes((trace / f"{name}.csv").read_bytes())
    for number in range(3):
        yield out / str(number)


@pytest.mark.slow
@pytest.mark.parametrize(("seed", "overlap"), [(1, 0.0), (2, 0.0), (3, 0.02)])
def test_steps_give_what_one_build_gives(
    trace: tuple[Path, TraceSummary], shared_lake: Config, tmp_path: Path, seed: int, overlap: float
) -> None:
    steps = Flow(Config(lake=tmp_path / "steps", threads=1))
    for number, folder in enumerate(split(trace[0], tmp_path / "parts", seed, overlap)):
        steps.land([folder])
        assert (steps.build().touched is not None) is (number > 0)
    assert_alike(steps.lake, Lake(shared_lake), digits=6)


def begun(trace: Path, folder: Path) -> tuple[Config, Path]:
    """A lake built from the first part of the trace, and the second part."""

    def make(place: Path) -> None:
        first, *_ = split(trace, place / "parts", 4)
        flow = Flow(Config(lake=place / "lake", threads=1))
        flow.land([first])
        flow.build()

    copied("first part of the trace", make, folder)
    return Config(lake=folder / "lake", threads=1), folder / "parts" / "1"


@pytest.mark.slow
def test_late_rows_are_counted_and_what_was_touched_is_reported(
    trace: tuple[Path, TraceSummary], tmp_path: Path
) -> None:
    config, second = begun(trace[0], tmp_path)
    flow = Flow(config)
    (before,) = rows_of(flow.lake, "SELECT epoch(observed_until) AS until FROM silver_clusters")
    flow.land([second])
    touched = flow.build().touched
    assert touched is not None
    new = read(second / "pai_instance_table.csv")
    late = [row for row in new if (row[7] or row[6]) and float(row[7] or row[6]) < float(str(before["until"]))]
    assert touched.late_attempts == len(late) > 0
    (info,) = rows_of(flow.lake, "SELECT is_increment, touched_jobs, touched_days, late_attempts FROM build_info")
    assert info == {
        "is_increment": True,
        "touched_jobs": touched.touched_jobs,
        "touched_days": touched.touched_days,
        "late_attempts": len(late),
    }


@pytest.mark.slow
def test_an_attempt_within_a_day_touches_no_other_day(trace: tuple[Path, TraceSummary], tmp_path: Path) -> None:
    config, _ = begun(trace[0], tmp_path)
    flow, late = Flow(config), tmp_path / "late"
    (second_day,) = rows_of(
        flow.lake,
        "SELECT epoch(started_at) AS begin FROM silver_days WHERE cluster_id = 'synth' ORDER BY dt LIMIT 1 OFFSET 1",
    )
    begin = float(str(second_day["begin"])) + 43_200
    times = [str(begin), str(begin + 600)]
    machine = read(trace[0] / "pai_machine_spec.csv")[0][0]
    write(late / "pai_job_table.csv", [["synth-job", "synth-inst", "synth-user", "Terminated", *times]])
    write(late / "pai_task_table.csv", [["synth-job", "worker", "1", "Terminated", *times, "600", "29", "", ""]])
    attempt = ["synth-job", "worker", "synth-name", "synth-worker", "synth-inst", "Terminated", *times, machine]
    write(late / "pai_instance_table.csv", [attempt])
    flow.land([late])
    touched = flow.build().touched
    assert touched is not None
    assert (touched.touched_days, touched.late_attempts) == (1, 1)


@pytest.mark.slow
@pytest.mark.parametrize("change", ["settings", "machines", "force"])
def test_what_may_touch_anything_is_built_at_once(
    trace: tuple[Path, TraceSummary], tmp_path: Path, change: str
) -> None:
    config, second = begun(trace[0], tmp_path)
    if change == "machines":
        machine = "f" * 24
        write(second / "pai_machine_spec.csv", [[machine, "T4", "96", "512", "2"]])
    Flow(config).land([second])
    other = Config(lake=config.lake, threads=1, idle_gpu_ratio=0.02) if change == "settings" else config
    assert Flow(other).build(is_forced=change == "force").touched is None


@pytest.mark.slow
def test_a_cluster_that_is_new_is_built_at_once(trace: tuple[Path, TraceSummary], tmp_path: Path) -> None:
    flow = Flow(Config(lake=tmp_path / "lake", threads=1))
    flow.land([trace[0] / "pai_machine_spec.csv"])
    flow.build()
    flow.land([trace[0] / f"{name}.csv" for name in ("pai_job_table", "pai_task_table", "pai_instance_table")])
    assert flow.build().touched is None
    (sums,) = rows_of(flow.lake, "SELECT sum(capacity_gpu_hours) AS hours FROM gold_ledger_hourly")
    flow.build(is_forced=True)
    assert rows_of(flow.lake, "SELECT sum(capacity_gpu_hours) AS hours FROM gold_ledger_hourly") == [sums]


@pytest.mark.slow
def test_an_end_that_moves_back_is_built_at_once(tmp_path: Path) -> None:
    """Of a thousand ends the last one does not count; of a few it does."""
    job = "{0},i{0},u,Terminated,{1}.0,{2}.0"

    def landed(name: str, rows: list[str]) -> Path:
        write(tmp_path / name / "pai_job_table.csv", [row.split(",") for row in rows])
        return tmp_path / name

    flow = Flow(Config(lake=tmp_path / "lake", threads=1))
    flow.land([landed("first", [job.format("a", 1000, 2000), job.format("b", 1000, 9_000_000)])])
    flow.build()
    flow.land([landed("second", [job.format(f"c{number}", 1000, 3000) for number in range(3000)])])
    assert flow.build().touched is None
    (days,) = rows_of(flow.lake, "SELECT count(*) AS n FROM silver_days")
    assert days == {"n": 1}
