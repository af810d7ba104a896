"""`python -m bench.marts.ours LAKE`: runs the models of the seven marts on the lake's last build, and times them."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

from gpulake.core.config import Config
from gpulake.lake import Lake
from gpulake.lake.engine import text
from gpulake.model.build import write_settings
from gpulake.model.plan import shipped_plan

# The models of each mart, and the figure that both sides must agree on.
MARTS = {
    "daily utilisation": (
        ("silver_machine_stretches", "gold_cluster_coverage_daily", "gold_cluster_util_daily"),
        "SELECT sum(busy_gpu_hours), sum(observed_gpu_hours), sum(gpu_util_ratio) FROM gold_cluster_util_daily",
    ),
    "job efficiency": (
        ("gold_job_efficiency_daily",),
        "SELECT count(*), sum(held_gpu_hours), sum(used_gpu_hours), sum(lost_gpu_hours), sum(gpu_efficiency_ratio)"
        " FROM gold_job_efficiency_daily",
    ),
    "per-user daily": (
        ("gold_user_gpu_usage_daily",),
        "SELECT count(*), sum(jobs), sum(failed_jobs), sum(idle_gpu_hours) FROM gold_user_gpu_usage_daily",
    ),
    "wait percentiles": (
        ("gold_queue_waits",),
        "SELECT count(*), sum(p50_start_wait_seconds), sum(p99_start_wait_seconds), sum(p95_launch_wait_seconds)"
        " FROM gold_queue_waits",
    ),
    "hourly demand": (
        ("gold_demand_hourly",),
        "SELECT count(*), sum(submitted_tasks), sum(waiting_gpu_hours), sum(demanded_gpu_hours)"
        " FROM gold_demand_hourly",
    ),
    "recurrence": (
        ("gold_group_recurrence",),
        "SELECT count(*), sum(users), sum(median_turnaround_seconds), sum(turnaround_cov_ratio)"
        " FROM gold_group_recurrence",
    ),
    "machine-hours": (
        ("silver_held_hours", "gold_machine_hours"),
        "SELECT count(*), sum(unallocated_gpu_hours), sum(unknown_gpu_hours), sum(lost_gpu_hours),"
        " sum(lost_at_least_gpu_hours), sum(overcommitted_gpu_hours)"
        " FROM gold_machine_hours",
    ),
}


def main(folder: Path) -> dict[str, object]:
    lake = Lake(Config(lake=folder)).open()
    models = {model.name: model for model in shipped_plan().models}
    answers: dict[str, object] = {}
    with lake.connect(folder / "spill") as connection:
        lake.attach_landed(connection).make_all()
        write_settings(connection, lake.config)
        connection.execute(f"ATTACH {text(str(lake.builds.current()))} AS lake (READ_ONLY)")
        for mart, (names, figures) in MARTS.items():
            begin, begin_cpu = time.perf_counter(), time.process_time()
            for name in names:
                connection.execute(f"CREATE OR REPLACE TEMP TABLE {name} AS {models[name].sql}")
            cost = {"seconds": time.perf_counter() - begin, "cpu_seconds": time.process_time() - begin_cpu}
            answers[mart] = {**cost, "figures": list(connection.execute(figures).fetchall()[0])}
            connection.execute("; ".join(f"DROP TABLE temp.{name}" for name in names))
    return answers


if __name__ == "__main__":
    print(json.dumps(main(Path(sys.argv[1])), default=float))
