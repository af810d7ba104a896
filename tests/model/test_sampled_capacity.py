"""Machines that no inventory lists have the GPUs that telemetry saw, and what is in use without a job is unknown."""

from __future__ import annotations

from datetime import date
from pathlib import Path

import pytest

from conftest import built_from, rows_of
from gpulake.core.config import Cluster
from gpulake.lake import Lake
from model.sacct import dump
from model.test_sampled_usage import BEGIN, job, page

pytestmark = pytest.mark.slow

CLUSTERS = {"tiger": Cluster(time_zone="UTC")}
BUCKETS = (
    "SELECT machine_id, basis, gpus, round(sum(capacity_gpu_hours), 3) AS capacity, round(sum(unknown_gpu_hours), 3)"
    " AS unknown, round(sum(unallocated_gpu_hours), 3) AS free, round(sum(used_gpu_hours), 3) AS used"
    " FROM gold_machine_hours JOIN silver_capacity USING (cluster_id, machine_key) GROUP BY ALL ORDER BY machine_id"
)


def ledger_of(lake: Lake) -> list[tuple[object, ...]]:
    return [tuple(row.values()) for row in rows_of(lake, BUCKETS)]


def test_a_site_without_an_inventory_has_the_gpus_that_its_exporters_show(tmp_path: Path) -> None:
    """From 9 to 11 o'clock, samples from 10 on: one job on two of four GPUs, and beside it a GPU that nobody claims."""
    lake = built_from(
        tmp_path,
        {
            "jobs.txt": dump(job(1, 2), job(2, 1, node="unseen")),
            "gpu-1.prom": page({0: (80, ',hpc_job="1"'), 1: (80, ',hpc_job="1"'), 2: (50, ""), 3: (0, "")}),
        },
        clusters=CLUSTERS,
    )
    assert ledger_of(lake) == [
        ("gpu-1", "telemetry", 4.0, 4.0, 1.0, 1.0, 1.6),
        (None, "peak", 1.0, 2.0, 0.0, 1.0, 0.0),
    ]


def test_a_machine_that_only_telemetry_knows_has_a_ledger_of_its_samples(tmp_path: Path) -> None:
    """The exporter names pods, so that a GPU without one is free; a busy GPU without one is not."""
    pod = ',pod="train-0",namespace="ml"'
    lake = built_from(tmp_path, {"k1.prom": page({0: (90, pod), 1: (0, ""), 2: (40, "")}, "k1")})
    assert ledger_of(lake) == [("k1", "telemetry", 3.0, 3.0, 2.0, 1.0, 0.0)]


def test_where_nothing_names_holders_a_quiet_gpu_is_unknown(tmp_path: Path) -> None:
    lake = built_from(tmp_path, {"k1.prom": page({0: (90, ""), 1: (0, "")}, "k1")})
    assert ledger_of(lake) == [("k1", "telemetry", 2.0, 2.0, 2.0, 0.0, 0.0)]


def test_sampled_gpus_are_the_utilisation_of_their_cluster(tmp_path: Path) -> None:
    head = "timestamp, index, uuid, name, utilization.gpu [%]\n"
    rows = [
        f"2026/05/04 {hour}:{minute:02}:00.000, {gpu}, GPU-{gpu}, NVIDIA H100 80GB HBM3, {percent} %\n"
        for hour in (10, 11)
        for minute in range(60)
        for gpu, percent in ((0, 80), (1, 20))
        # Of the second hour, one GPU was sampled for half of it.
        if hour == 10 or gpu == 0 or minute < 30
    ]
    lake = built_from(tmp_path, {"gpu-001.csv": head + "".join(rows)})
    daily = "SELECT dt, round(gpu_util_ratio, 3) AS used, round(busy_gpu_hours, 1) AS busy,"
    daily += " round(observed_gpu_hours, 1) AS seen, capacity_gpu_hours AS capacity, observed_machines AS machines"
    (day,) = rows_of(lake, f"{daily} FROM gold_cluster_util_daily")
    assert day == {
        "dt": date(2026, 5, 4),
        "used": round((0.8 + 0.2 + 0.8 + 0.1) / 3.5, 3),
        "busy": 1.9,
        "seen": 3.5,
        "capacity": 48.0,
        "machines": 1,
    }
    hourly = "SELECT round(gpu_util_ratio, 2) AS used, round(observed_gpu_hours, 1) AS seen"
    hours = rows_of(lake, f"{hourly} FROM gold_cluster_util_hourly ORDER BY started_at")
    assert [tuple(row.values()) for row in hours] == [(0.5, 2.0), (0.6, 1.5)]


def test_sampled_hosts_are_the_cpu_utilisation_of_their_cluster(tmp_path: Path) -> None:
    """Two nodes of 30 and 10 cores by Slurm, and a login node that no cluster has, which does not count."""
    begin = int(BEGIN.timestamp())

    def host(shares: tuple[float, float], node: str) -> str:
        """Counters of CPU seconds at every minute of two hours, with a share that is busy in each of them."""
        idle = [60 * (minute - sum(shares[now // 60] for now in range(minute))) for minute in range(120)]
        lines = ["# TYPE node_cpu_seconds counter"]
        for mode, values in (("idle", idle), ("user", [60 * n - value for n, value in enumerate(idle)])):
            labels = f'cpu="0",mode="{mode}",instance="{node}:9100"'
            lines += [f"node_cpu_seconds_total{{{labels}}} {value} {begin + 60 * n}" for n, value in enumerate(values)]
        return "\n".join([*lines, "# EOF", ""])

    lake = built_from(
        tmp_path,
        {
            "jobs.txt": dump(job(1, 1)),
            "gpus.prom": page({0: (50, "")}),
            "nodes.txt": "".join(
                f"NodeName=gpu-{one} State=IDLE Gres=gpu:1 CPUTot={cores} RealMemory=1024\n"
                for one, cores in ((1, 30), (2, 10))
            ),
            "gpu-1.prom": host((0.5, 0.1), "gpu-1"),
            "gpu-2.prom": host((0.9, 0.1), "gpu-2"),
            "login.prom": host((1.0, 1.0), "login"),
        },
        clusters=CLUSTERS,
    )
    # Jobs and GPUs are known of the first hour only.
    hourly = "SELECT round(cpu_util_ratio, 2) AS cpu, round(gpu_util_ratio, 2) AS gpu FROM gold_cluster_util_hourly"
    hours = rows_of(lake, f"{hourly} WHERE cpu_util_ratio IS NOT NULL ORDER BY started_at")
    assert [tuple(row.values()) for row in hours] == [(0.6, 0.5)]
    daily = (
        "SELECT round(cpu_util_ratio, 2) AS cpu, round(gpu_util_ratio, 2) AS gpu, round(observed_gpu_hours, 1) AS seen"
    )
    assert rows_of(lake, f"{daily} FROM gold_cluster_util_daily") == [{"cpu": 0.35, "gpu": 0.5, "seen": 1.0}]
