"""A run that was recorded on a real GPU, parsed here: what we read is what nvidia-smi read at the same moments."""

from __future__ import annotations

import json
import statistics
from bisect import bisect_left
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from collect.recorded import SmiSample, smi_samples, unpack_recording
from gpulake.collect.cctf.parse import parse

MOST_APART_MS = 150  # both poll every 200 ms


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    run = unpack_recording(tmp_path_factory.mktemp("recorded"))
    parse(run)
    return run


def rows_of_file(run: Path, name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (run / "cctf" / f"{name}.jsonl").read_text().splitlines()]


@pytest.mark.parametrize(
    ("ours", "theirs", "most_apart"),
    [
        (lambda row: row["gpu_busy_ratio"] * 100, lambda smi: smi.utilisation_percent, 0.5),
        (lambda row: row["memory_used_bytes"] / 2**20, lambda smi: smi.memory_used_mib, 0.5),
        (lambda row: row["power_watts"], lambda smi: smi.power_watts, 0.5),
        (lambda row: row["temperature_celsius"], lambda smi: smi.temperature_celsius, 0.5),
    ],
    ids=["utilisation", "memory", "power", "temperature"],
)
def test_what_we_read_is_what_nvidia_smi_read(
    run: Path, ours: Callable[[dict[str, Any]], float], theirs: Callable[[SmiSample], float], most_apart: float
) -> None:
    rows = rows_of_file(run, "gpu_metrics")
    times = [row["ts_ms"] for row in rows]
    pairs = []
    for smi in smi_samples(run.parent):
        at = bisect_left(times, smi.ts_ms)
        near = min(rows[max(at - 1, 0) : at + 1], key=lambda row: abs(row["ts_ms"] - smi.ts_ms))
        if abs(near["ts_ms"] - smi.ts_ms) <= MOST_APART_MS:
            pairs.append((ours(near), theirs(smi)))
    assert len(pairs) > 600
    assert statistics.median(abs(mine - its) for mine, its in pairs) <= most_apart
    assert statistics.correlation(*zip(*pairs, strict=True)) > 0.98


def test_every_tick_of_the_recording_is_there_once(run: Path) -> None:
    ticks = rows_of_file(run, "host_metrics")
    assert len(ticks) == 680
    assert {late["ts_ms"] - early["ts_ms"] for early, late in pairwise(ticks)} <= set(range(195, 215))


def test_the_job_has_its_process_and_its_gpu(run: Path) -> None:
    (job,) = rows_of_file(run, "invocations")
    assert (job["path"], job["status"], job["ts_end"] - job["ts_start"]) == ("python3", 0, 125750)
    of_the_job = [row for row in rows_of_file(run, "gpu_processes") if row["proc_id"] == job["proc_id"]]
    assert len(of_the_job) == 563
    assert max(row["memory_used_bytes"] for row in of_the_job) > 5 << 30


def test_the_cpu_of_the_job_is_the_same_by_its_samples_and_by_its_end(run: Path) -> None:
    (job,) = rows_of_file(run, "invocations")
    sampled = sum(row["cpu_ms"] for row in rows_of_file(run, "proc_cpu") if row["proc_id"] == job["proc_id"])
    assert sampled == pytest.approx(job["cpu_time_ms"], rel=0.02)


def test_energy_is_power_over_time(run: Path) -> None:
    rows = rows_of_file(run, "gpu_metrics")
    counted = rows[-1]["energy_joules_total"] - rows[0]["energy_joules_total"]
    integrated = sum(row["power_watts"] * (after["ts_ms"] - row["ts_ms"]) / 1000 for row, after in pairwise(rows))
    assert counted == pytest.approx(integrated, rel=0.02)


def test_tensor_cores_were_seen_at_work_and_at_rest(run: Path) -> None:
    active = [row["tensor_active_ratio"] for row in rows_of_file(run, "gpu_metrics")[1:]]
    assert min(active) == 0
    assert 0.5 < max(active) <= 1
