"""gpulake pull state_metrics: a cluster in silver, by what a real Prometheus kept of kube-state-metrics."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path

import pytest

from conftest import rows_of
from gpulake.core.config import Config
from gpulake.flow import Flow
from gpulake.pull.state_metrics import StateMetricsPull
from pull.real_prometheus import RealPrometheus, needs_prometheus, running, write_history

pytestmark = [pytest.mark.slow, needs_prometheus]
BEGIN = datetime(2026, 5, 1, 10, tzinfo=UTC)
MINUTES = 121
SCRAPER = 'instance="10.0.0.9:8080",job="ksm",namespace="monitoring",pod="ksm-0"'
PHASES = ("Pending", "Running", "Succeeded", "Failed", "Unknown")
Value = Callable[[int], float | None]  # by the minute


def at(minute: int) -> int:
    return int(BEGIN.timestamp()) + 60 * minute


def is_said(word: Callable[[int], str], wanted: str, minute: int) -> int:
    return int(word(minute) == wanted)


def series(
    listed: Value, name: str, gpus: int, phase: Callable[[int], str], labels: str = ""
) -> Iterator[tuple[str, str, Value]]:
    """What kube-state-metrics says of a pod, as Prometheus keeps it: labels that its own target has are renamed."""
    pod = f'exported_namespace="vision",exported_pod="{name}",uid="uid-{name}"'

    def said(value: Value) -> Value:
        return lambda minute: None if listed(minute) is None else value(minute)

    yield "kube_pod_info", f'{pod},node="{"" if name == "large" else "gpu-1"}"', said(lambda _: 1)
    yield "kube_pod_owner", pod + (labels or ',owner_kind="<none>",owner_name="<none>"'), said(lambda _: 1)
    yield "kube_pod_created", pod, said(lambda _: at(0))
    request = f'{pod},container="main",resource="nvidia_com_gpu",unit="integer"'
    yield "kube_pod_container_resource_requests", request, said(lambda _: gpus)
    for one in PHASES:
        yield "kube_pod_status_phase", f'{pod},phase="{one}"', said(partial(is_said, phase, one))
    if name == "large":
        yield "kube_pod_status_unschedulable", pod, said(lambda _: 1)
    else:
        yield "kube_pod_start_time", pod, said(lambda _: at(0))
    if labels:
        yield "kube_pod_completion_time", pod, lambda minute: at(60) if minute >= 60 else None


def page() -> str:
    """Two hours: a Job that ends after one, a pod that is gone after 80 minutes, one that waits, and a node that is not
    ready from the 90th to the 105th minute."""

    def ready(minute: int) -> str:
        return "false" if 90 <= minute < 105 else "true"

    found: list[tuple[str, str, Value]] = [
        ("kube_node_created", 'node="gpu-1"', lambda _: at(-600)),
        ("kube_node_status_capacity", 'node="gpu-1",resource="nvidia_com_gpu",unit="integer"', lambda _: 8),
        ("kube_node_status_capacity", 'node="gpu-1",resource="cpu",unit="core"', lambda _: 96),
        ("kube_node_labels", 'node="gpu-1",label_nvidia_com_gpu_product="NVIDIA-H100-80GB-HBM3"', lambda _: 1),
        *(
            ("kube_node_status_condition", f'node="gpu-1",condition="Ready",status="{one}"',
             partial(is_said, ready, one))
            for one in ("true", "false")
        ),
        *series(lambda _: 1, "train-x", 4, lambda minute: "Succeeded" if minute >= 60 else "Running",
                ',owner_kind="Job",owner_name="train",owner_is_controller="true"'),
        *series(lambda minute: 1 if minute < 80 else None, "serve", 1, lambda _: "Running"),
        *series(lambda _: 1, "large", 8, lambda _: "Pending"),
    ]  # fmt: skip
    lines = []
    for metric in dict.fromkeys(name for name, _, _ in found):
        lines.append(f"# TYPE {metric} gauge")
        for name, labels, value in found:
            said = [(minute, value(minute)) for minute in range(MINUTES)] if name == metric else []
            lines += [f"{metric}{{{labels},{SCRAPER}}} {now} {at(minute)}" for minute, now in said if now is not None]
    return "\n".join([*lines, "# EOF", ""])


@pytest.fixture(scope="module")
def prometheus(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealPrometheus]:
    folder = tmp_path_factory.mktemp("prometheus")
    write_history(folder, page())
    with running(folder) as server:
        yield server


def test_pods_and_nodes_reach_silver_and_the_ledger(prometheus: RealPrometheus, tmp_path: Path) -> None:
    flow = Flow(Config(lake=tmp_path / "lake", threads=1))
    own = StateMetricsPull(prometheus.url, "zoo", environment={})
    result = flow.pull(own, BEGIN - timedelta(minutes=30), BEGIN + timedelta(hours=2, seconds=1))
    assert (result.pieces, result.rows_quarantined) == (3, 0)
    flow.build()
    jobs = (
        "SELECT split_part(job_id, '/', 2) AS job, jobs.status, requested_gpus AS gpus, wait_reason,"
        " strftime(jobs.ended_at AT TIME ZONE 'UTC', '%H:%M') AS ended"
        " FROM silver_jobs AS jobs JOIN silver_tasks USING (job_key, job_id) ORDER BY job"
    )
    assert [tuple(row.values()) for row in rows_of(flow.lake, jobs)] == [
        ("large", "waiting", 8.0, "Unschedulable", None),
        # Nothing marks the end of its series: the server repeats the last sample for five minutes.
        ("serve", "cancelled", 1.0, None, "11:22"),
        ("train", "succeeded", 4.0, None, "11:00"),
    ]
    machines = "SELECT machine_id, gpus, gpu_type, cores FROM silver_machines"
    assert [tuple(row.values()) for row in rows_of(flow.lake, machines)] == [
        ("gpu-1", 8, "NVIDIA-H100-80GB-HBM3", 96.0)
    ]
    states = (
        "SELECT condition, strftime(started_at AT TIME ZONE 'UTC', '%H:%M') AS since FROM silver_machine_states"
        " ORDER BY started_at"
    )
    assert [tuple(row.values()) for row in rows_of(flow.lake, states)] == [
        ("up", "10:00"), ("down", "11:30"), ("up", "11:45"),
    ]  # fmt: skip
    again = flow.pull(own, BEGIN - timedelta(minutes=30), BEGIN + timedelta(hours=2, seconds=1))
    assert (again.pieces, again.rows_landed) == (0, 0)


def test_a_time_in_which_the_exporter_was_down_is_no_empty_cluster(prometheus: RealPrometheus, tmp_path: Path) -> None:
    flow = Flow(Config(lake=tmp_path / "lake", threads=1))
    own = StateMetricsPull(prometheus.url, "zoo", environment={})
    result = flow.pull(own, BEGIN - timedelta(hours=1), BEGIN - timedelta(minutes=1))
    assert (result.pieces, result.rows_landed) == (1, 0)
