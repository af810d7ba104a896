"""gpulake pull slurm_metrics: nodes of Slurm in silver, by what a real Prometheus kept of a Slurm exporter."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from conftest import rows_of
from gpulake.core.config import Config
from gpulake.flow import Flow
from gpulake.pull.slurm_metrics import SlurmMetricsPull
from pull.real_prometheus import RealPrometheus, needs_prometheus, running, write_history

pytestmark = [pytest.mark.slow, needs_prometheus]
BEGIN = datetime(2026, 5, 1, 10, tzinfo=UTC)
MINUTES = 121
LOOKBACK_SECONDS = 30  # a scrape marks the end of a series, which a history cannot


def state(node: str, minute: int) -> str:
    if node != "g2":
        return "mixed"
    return "drained*" if 30 <= minute < 60 else "down" if minute == 90 else "idle"


def page() -> str:
    """Two hours. g2 is in two partitions, drained for half an hour and down for a moment; no count of g3's GPUs is
    known; the exporter is silent from the 100th to the 110th minute."""
    minutes = [minute for minute in range(MINUTES) if not 100 <= minute < 110]
    lines = []
    for metric, values in (
        ("slurm_node_cpu_total", {"g1": 64, "g2": 64, "g3": 32}),
        ("slurm_node_mem_total", {"g1": 1024, "g2": 1024, "g3": 512}),
        ("slurm_node_gpu_total", {"g1": 8, "g2": 4, "g3": 0}),
    ):
        lines.append(f"# TYPE {metric} gauge")
        for node, value in values.items():
            for partition in ("gpu", "debug") if node == "g2" else ("gpu",):
                for minute in minutes:
                    labels = f'node="{node}",partition="{partition}",status="{state(node, minute)}"'
                    lines.append(f"{metric}{{{labels}}} {value} {int(BEGIN.timestamp()) + 60 * minute}")
    # What no state is known of, and what would be two fields.
    lines += ["# TYPE slurm_node_gpus gauge", f'slurm_node_gpus{{node="g4"}} 8 {int(BEGIN.timestamp())}']
    lines += ["# TYPE slurm_node_status gauge"]
    lines += [f'slurm_node_status{{node="g5 State=IDLE",status="idle"}} 1 {int(BEGIN.timestamp())}']
    return "\n".join([*lines, "# EOF", ""])


@pytest.fixture(scope="module")
def prometheus(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealPrometheus]:
    folder = tmp_path_factory.mktemp("prometheus")
    write_history(folder, page())
    with running(folder, lookback_seconds=LOOKBACK_SECONDS) as server:
        yield server


def test_states_of_nodes_and_their_gpus_reach_silver(prometheus: RealPrometheus, tmp_path: Path) -> None:
    flow = Flow(Config(lake=tmp_path / "lake", threads=1))
    own = SlurmMetricsPull(prometheus.url, "tiger", environment={})
    since, until = BEGIN - timedelta(minutes=30), BEGIN + timedelta(hours=2, seconds=1)
    result = flow.pull(own, since, until)
    assert (result.pieces, result.rows_landed, result.rows_quarantined) == (3, 3 * 23, 0)
    flow.build()
    states = (
        "SELECT machine_id, condition, strftime(started_at AT TIME ZONE 'UTC', '%H:%M') AS since, basis"
        " FROM silver_machine_states ORDER BY machine_id, started_at"
    )
    assert [tuple(row.values()) for row in rows_of(flow.lake, states)] == [
        ("g1", "up", "10:00", "snapshot"),
        ("g2", "up", "10:00", "snapshot"),
        ("g2", "drained", "10:30", "snapshot"),
        ("g2", "up", "11:00", "snapshot"),
        ("g2", "down", "11:30", "snapshot"),
        ("g2", "up", "11:35", "snapshot"),
        ("g3", "up", "10:00", "snapshot"),
    ]
    machines = "SELECT cluster_id, machine_id, gpus, cores, memory_bytes FROM silver_machines ORDER BY machine_id"
    assert [tuple(row.values()) for row in rows_of(flow.lake, machines)] == [
        ("tiger", "g1", 8, 64.0, 2**30),
        ("tiger", "g2", 4, 64.0, 2**30),
    ]
    partitions = 'SELECT DISTINCT "NodeName" AS node, "Partitions" AS p FROM bronze_slurm_nodes ORDER BY node'
    assert [tuple(row.values()) for row in rows_of(flow.lake, partitions)] == [
        ("g1", "gpu"), ("g2", "debug,gpu"), ("g3", "gpu"),
    ]  # fmt: skip
    again = flow.pull(own, since, until)
    assert (again.pieces, again.rows_landed) == (0, 0)
