"""The shipped facts against the public data they were taken from."""

from __future__ import annotations

import csv
import gzip
import json
import os
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gpulake.core.pai import published
from gpulake.synth.facts import GPU_TYPES, HEADERS, STATUSES

pytestmark = pytest.mark.real


@pytest.fixture(scope="module")
def pai() -> Path:
    folder = os.environ.get("GPULAKE_REAL_DATA")
    if not folder:
        pytest.skip("set GPULAKE_REAL_DATA to the folder of the public data sets")
    return Path(folder) / "pai"


@pytest.fixture(scope="module")
def series(pai: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((pai / "published_quantiles.json").read_text())["series"]
    return found


REQUESTS = ("<25", "[25,50)", "[50,100)", "=100", ">100")
CURVES = [
    *((("wait_seconds", name), ("wait_s_by_gpu_type", name)) for name in GPU_TYPES),
    *((("runtime_seconds", name), ("runtime_s_by_gpu_type_terminated", name)) for name in GPU_TYPES),
    *((("machine_cpu_percent", name), ("machine_cpu_pct", name)) for name in ("usr", "kernel", "iowait")),
    (("runtime_seconds", "all"), ("task_runtime_s", "PAI")),
    (("usage", "cpu_percent"), ("cpu_pct", "usage")),
    (("usage", "gpu_percent"), ("gpu_pct", "usage")),
    (("usage", "gpu_memory_gb"), ("mem_gb", "avg_gpu_wrk_mem")),
    (("network", "read_gbit"), ("sensor_read_x8_div_2pow30", "read")),
    (("users", "tasks"), ("tasks_per_user", "all")),
    *((("request_wait_seconds", name), ("wait_s_by_gpu_request", f"{name}%")) for name in REQUESTS),
    *((("spare_percent", name), ("usage_minus_request_over_capacity_pct", name)) for name in ("cpu", "gpu", "mem")),
]


@pytest.mark.parametrize(("ours", "theirs"), CURVES)
def test_a_curve_is_the_published_one(series: dict[str, Any], ours: tuple[str, str], theirs: tuple[str, str]) -> None:
    points = published()["curves"][ours[0]][ours[1]]
    quantiles = series[theirs[0]][theirs[1]]
    assert len(points["percent"]) >= 8
    for percent, value in zip(points["percent"], points["value"], strict=True):
        assert value == pytest.approx(quantiles[f"p{percent}"], rel=0.002)


def test_the_machines_are_the_published_ones(pai: Path) -> None:
    with (pai / "pai_machine_spec.csv").open() as file:
        rows = Counter(
            (row["gpu_type"], int(row["cap_cpu"]), int(row["cap_mem"]), int(row["cap_gpu"]))
            for row in csv.DictReader(file)
        )
    ours = {
        (entry["gpu_type"], entry["cap_cpu"], entry["cap_mem"], entry["cap_gpu"]): entry["count"]
        for entry in published()["machines"]
    }
    assert rows == ours


@pytest.mark.parametrize("name", HEADERS)
def test_a_header_is_the_published_one(pai: Path, name: str) -> None:
    assert f"{HEADERS[name]}\n".encode() == (pai / f"{name}.header").read_bytes()


def test_the_shares_are_those_of_the_real_instances(pai: Path) -> None:
    with gzip.open(pai / "pai_instance_table_tail.csv.gz", "rt") as file:
        rows = list(csv.DictReader(file))
    count = Counter(row["status"] for row in rows)
    shares = published()["shares"]
    for status in STATUSES:
        assert count[status] / len(rows) * 100 == pytest.approx(shares["instance_status"][status], abs=0.5)
    for status, share in shares["missing_start"].items():
        lacking = sum(row["status"] == status and not row["start_time"] for row in rows)
        assert lacking / count[status] * 100 == pytest.approx(share, abs=1.5)


def test_the_run_times_are_those_of_the_real_instances(pai: Path) -> None:
    with gzip.open(pai / "pai_instance_table_tail.csv.gz", "rt") as file:
        rows = list(csv.DictReader(file))
    members: dict[tuple[str, str], set[str]] = {}
    for row in rows:
        members.setdefault((row["job_name"], row["task_name"]), set()).add(row["inst_name"])
    runs = [
        (float(row["end_time"]) - float(row["start_time"]), len(members[row["job_name"], row["task_name"]]) > 1)
        for row in rows
        if row["status"] == "Terminated"
    ]
    tail = published()["tail"]
    assert np.mean([seconds for seconds, _ in runs]) == pytest.approx(tail["run_mean_seconds"], rel=0.001)
    for name, seconds in (
        ("run_seconds", [seconds for seconds, _ in runs]),
        ("gang_run_seconds", [seconds for seconds, in_gang in runs if in_gang]),
    ):
        assert tail[name]["value"] == pytest.approx(np.percentile(seconds, tail[name]["percent"]), rel=0.04)
