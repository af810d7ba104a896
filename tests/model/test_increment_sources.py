"""One more day of any source: what an increment makes is what a full build makes, in every table and column."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from conftest import count_of, rows_of
from gpulake.core.config import Config
from gpulake.flow import Flow
from growing import DAYS, job_rows, telemetry_rows, write_steps
from growing_pods import pod_rows
from repeating import assert_alike

SAMPLES = [f"silver_{kind}_samples" for kind in ("gpu", "host", "link", "process", "gpu_process")]


def grown(folder: Path, steps: list[Path]) -> tuple[Flow, list[bool]]:
    """A lake that is built after each step, and which of the builds extended the one before."""
    flow = Flow(Config(lake=folder / "lake", threads=1))
    extended = []
    for step in steps:
        flow.land([step])
        extended.append(flow.build().touched is not None)
    return flow, extended


def assert_same_as_full(flow: Flow, folder: Path) -> None:
    shutil.copytree(flow.lake.root, folder / "full")
    full = Flow(Config(lake=folder / "full", threads=1))
    full.build(is_forced=True)
    assert_alike(flow.lake, full.lake, digits=9)


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 2])
def test_one_more_day_of_every_scheduler_gives_what_a_full_build_gives(tmp_path: Path, seed: int) -> None:
    steps = write_steps(tmp_path / "parts", job_rows(seed), seed, (DAYS - 2, DAYS - 1, DAYS + 1))
    flow, extended = grown(tmp_path, steps)
    assert extended == [False, True, True]
    clusters = rows_of(flow.lake, "SELECT cluster_id, count(*) > 80 AS is_large FROM silver_jobs GROUP BY ALL")
    assert {row["cluster_id"] for row in clusters if row["is_large"]} == {"tiger", "seren", "venus", "philly", "openb"}
    assert_same_as_full(flow, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 2])
def test_one_more_day_of_telemetry_gives_what_a_full_build_gives(tmp_path: Path, seed: int) -> None:
    steps = write_steps(tmp_path / "parts", telemetry_rows(seed), seed, (DAYS - 2, DAYS - 1, DAYS + 1))
    flow, extended = grown(tmp_path, steps)
    assert extended == [False, True, True]
    counts = {table: count_of(flow.lake, table) for table in SAMPLES}
    assert min(counts.values()) > 300, counts
    assert_same_as_full(flow, tmp_path)


@pytest.mark.slow
def test_one_more_day_of_kubernetes_gives_what_a_full_build_gives(tmp_path: Path) -> None:
    steps = write_steps(tmp_path / "parts", pod_rows(2), 2, (DAYS - 2, DAYS - 1, DAYS + 1))
    flow, extended = grown(tmp_path, steps)
    assert extended == [False, True, True]
    known = "SELECT status, count(*) > 9 AS is_many FROM silver_pod_runs GROUP BY ALL"
    many = {row["status"] for row in rows_of(flow.lake, known) if row["is_many"]}
    assert many == {"succeeded", "failed", "cancelled"}
    assert rows_of(flow.lake, "SELECT DISTINCT wait_reason FROM silver_jobs WHERE wait_reason IS NOT NULL") == [
        {"wait_reason": "Insufficient nvidia.com/gpu"}
    ]
    assert_same_as_full(flow, tmp_path)
