"""Pods, nodes and events of Kubernetes in silver and in the ledger: four hours of a cluster in five snapshots."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from conftest import built_from, rows_of
from gpulake.lake import Lake
from gpulake.show.job_report import job_report
from model import kubernetes_story as story
from model.kubernetes_story import Object, condition, event, gpus, job, metadata, node, pod, ran, snapshot, terminated

pytestmark = pytest.mark.slow

HOURS = ("10:00", "11:00", "12:00", "13:00", "14:00")
QUOTA = {
    "reason": "Pending",
    "message": "couldn't assign flavors to pod set main: insufficient unused quota for nvidia.com/gpu in flavor h100",
}


def training(clock: str) -> list[Object]:
    """A Job whose first pod was killed for memory and whose second one succeeded."""
    is_over = clock >= "13:00"
    done: Object = (
        {"conditions": [condition("Complete", since="13:00")], "completionTime": story.at("13:00")} if is_over else {}
    )
    owner = job(metadata("train", "vision", labels={"user": "ann"}), gpus(4), startTime=story.at("10:00"), **done)
    killed = [ran("10:00", "11:00", 137, "OOMKilled")]
    first = metadata("train-a", "vision", owner=owner)
    second = metadata("train-b", "vision", "11:00", owner)
    if clock < "11:00":
        return [owner, pod(first, "gpu-1", gpus(4), "10:00")]
    failed = pod(first, "gpu-1", gpus(4), "10:00", "Failed", containerStatuses=killed)
    ended: Object = {"phase": "Succeeded", "containerStatuses": [ran("11:00", "13:00")]} if is_over else {}
    return [owner, failed, pod(second, "gpu-1", gpus(4), "11:00", **ended)]


def gang(_: str) -> list[Object]:
    """Two workers of a PyTorchJob on one machine: only the first one works."""
    workers = {"replicas": 2, "template": {"spec": story.containers(gpus(4))}}
    owner = {
        "apiVersion": "kubeflow.org/v1",
        "kind": "PyTorchJob",
        "metadata": metadata("llm", "nlp"),
        "spec": {"pytorchReplicaSpecs": {"Worker": workers}},
        "status": {"conditions": [condition("Created"), condition("Running")]},
    }
    labels = {"training.kubeflow.org/replica-type": "worker", "training.kubeflow.org/job-name": "llm"}
    return [owner] + [
        pod(
            metadata(
                f"llm-{index}", "nlp", owner=owner, labels=labels | {"training.kubeflow.org/replica-index": index}
            ),
            *("gpu-2", gpus(4), "10:00"),
        )
        for index in ("0", "1")
    ]


def queued(clock: str) -> list[Object]:
    """One Job that Kueue admitted at eleven, and one that it holds back."""
    found = []
    for name, count in (("admitted", 1), ("held", 8)):
        owner = job(metadata(name, "vision", labels={"kueue.x-k8s.io/queue-name": "research"}), gpus(count))
        is_admitted = name == "admitted" and clock >= "11:00"
        conditions = [condition("QuotaReserved", since="11:00"), condition("Admitted", since="11:00")]
        workload = {
            "apiVersion": "kueue.x-k8s.io/v1beta1",
            "kind": "Workload",
            "metadata": metadata(f"job-{name}", "vision", owner=owner),
            "spec": {"queueName": "research"},
            "status": {"conditions": conditions if is_admitted else [condition("QuotaReserved", "False", **QUOTA)]},
        }
        found += [owner, workload]
        if name == "admitted" and clock >= "12:00":
            owner["status"]["startTime"] = story.at("11:00")
            found.append(pod(metadata("admitted-x", "vision", "11:00", owner), "gpu-1", gpus(count), "11:30"))
    return found


def others(clock: str) -> list[Object]:
    """A service that is gone after noon, an evicted pod, one that restarted, MIG instances, and a daemon."""
    replicas = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": metadata("serve-1", "nlp")}
    daemons = {"apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": metadata("exporter", "monitoring")}
    found = [
        pod(metadata("slices", "nlp"), "gpu-4", {"nvidia.com/mig-1g.10gb": "2"}, "10:00"),
        pod(metadata("exporter-x", "monitoring", owner=daemons), "gpu-1", {"cpu": "100m"}, "10:00"),
    ]
    if clock <= "12:00":
        found.append(pod(metadata("serve-x", "nlp", owner=replicas), "gpu-1", gpus(1), "10:00"))
    spot = metadata("spot", "vision")
    if clock < "12:00":
        found.append(pod(spot, "gpu-1", gpus(2), "10:00"))
    else:
        evicted = pod(spot, "gpu-1", gpus(2), "10:00", "Failed", reason="Evicted", containerStatuses=[])
        found += [
            evicted,
            event("spot.1", "Evicted", evicted, "11:45", "The node was low on resource: memory.", "gpu-1"),
        ]
    last = terminated("10:05", "11:00", 1)
    crashed: dict[str, list[Object]] = {
        "10:00": [{"name": "main", "restartCount": 0, "state": {"waiting": {"reason": "ContainerCreating"}}}],
        "11:00": [{"name": "main", "restartCount": 0, "state": last}],
    }
    over = [ran("11:05", "12:00", last=last)]
    phase = "Succeeded" if clock >= "12:00" else "Running"
    found.append(
        pod(metadata("crash", "nlp"), "gpu-1", gpus(1), "10:00", phase, containerStatuses=crashed.get(clock, over))
    )
    return found


def nodes(clock: str) -> list[Object]:
    is_out = clock == "12:00"
    since = "11:20" if is_out else "12:40" if clock > "12:00" else "09:00"
    xid = "NVRM: Xid (PCI:0000:3b:00): 79, pid=1234, name=python, GPU has fallen off the bus."
    fifth = node("gpu-5", gpus(2), "Unknown" if is_out else "True", since)
    sixth = node("gpu-6", gpus(1), unschedulable=True) if clock == "13:00" else node("gpu-6", gpus(1))
    found = [node(f"gpu-{number}", gpus(8)) for number in (1, 2, 3)]
    found += [node("gpu-4", {"nvidia.com/gpu": "0", "nvidia.com/mig-1g.10gb": "7"}), fifth, sixth, node("cpu-1", {})]
    return [*found, event("gpu-5.1", "XidError", fifth, "11:20", xid)] if is_out else found


def page(percentages: dict[str, float]) -> str:
    """Scrapes of dcgm-exporter through Prometheus: `pod` is the exporter's own."""
    begin = int(datetime(2026, 5, 1, 10, tzinfo=UTC).timestamp() * 1000)
    return "".join(
        f'DCGM_FI_DEV_GPU_UTIL{{gpu="{gpu}",UUID="GPU-{gpu}",Hostname="gpu-2",pod="dcgm-exporter-7",'
        f'namespace="monitoring",exported_pod="{name}",exported_namespace="nlp"}} {percent} {begin + 60_000 * minute}\n'
        for minute in range(241)
        for number, (name, percent) in enumerate(percentages.items())
        for gpu in range(4 * number, 4 * number + 4)
    )


def files() -> dict[str, str]:
    snapshots = {
        f"snapshot-{clock[:2]}.json": snapshot(
            clock, *training(clock), *gang(clock), *queued(clock), *others(clock), *nodes(clock)
        )
        for clock in HOURS
    }
    return snapshots | {"page.prom": page({"llm-0": 100, "llm-1": 0})}


@pytest.fixture(scope="module")
def zoo(tmp_path_factory: pytest.TempPathFactory) -> Lake:
    return built_from(tmp_path_factory.mktemp("zoo"), files())


def clocks(rows: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
    return [
        tuple(f"{value.astimezone(UTC):%H:%M}" if isinstance(value, datetime) else value for value in row.values())
        for row in rows
    ]


def test_a_job_is_the_top_owner_of_its_pods_or_the_pod_itself(zoo: Lake) -> None:
    sql = (
        "SELECT split_part(job_id, '/', 1) || '/' || split_part(job_id, '/', 2) AS job, status, user_id, account_id,"
        " partition_id, submitted_at, started_at, ended_at FROM silver_jobs ORDER BY job"
    )
    assert clocks(rows_of(zoo, sql)) == [
        ("nlp/crash", "succeeded", None, "nlp", None, "10:00", "10:00", "12:00"),
        ("nlp/llm", "running", None, "nlp", None, "10:00", "10:00", None),
        ("nlp/serve-x", "cancelled", None, "nlp", None, "10:00", "10:00", "12:30"),
        ("nlp/slices", "running", None, "nlp", None, "10:00", "10:00", None),
        ("vision/admitted", "running", None, "vision", "research", "10:00", "11:30", None),
        ("vision/held", "waiting", None, "vision", "research", "10:00", None, None),
        ("vision/spot", "interrupted", None, "vision", None, "10:00", "10:00", "11:45"),
        ("vision/train", "succeeded", "ann", "vision", None, "10:00", "10:00", "13:00"),
    ]


def test_retries_and_restarts_are_attempts_and_an_end_between_snapshots_is_inferred(zoo: Lake) -> None:
    sql = (
        "SELECT split_part(job_id, '/', 2) AS job, attempt, holdings.status, round(gpus, 4) AS gpus,"
        " held_from, held_until, end_basis, bucket"
        " FROM silver_holdings AS holdings JOIN silver_jobs USING (job_key) ORDER BY ALL"
    )
    assert clocks(rows_of(zoo, sql)) == [
        ("admitted", 1, "running", 1, "11:30", "14:00", "censored", "unobserved"),
        ("crash", 1, "failed", 1, "10:00", "11:05", "recorded", "failed"),
        ("crash", 2, "succeeded", 1, "11:05", "12:00", "recorded", "unobserved"),
        ("llm", 1, "running", 4, "10:00", "14:00", "censored", "idle"),
        ("llm", 1, "running", 4, "10:00", "14:00", "censored", "used"),
        ("serve-x", 1, "cancelled", 1, "10:00", "12:30", "snapshot", "unobserved"),
        ("slices", 1, "running", 0.2857, "10:00", "14:00", "censored", "unobserved"),
        ("spot", 1, "interrupted", 2, "10:00", "11:45", "recorded", "interrupted"),
        ("train", 1, "failed", 4, "10:00", "11:00", "recorded", "failed"),
        ("train", 2, "succeeded", 4, "11:00", "13:00", "recorded", "unobserved"),
    ]


def test_the_ledger_of_pods_is_closed_and_an_idle_node_is_not_down(zoo: Lake) -> None:
    sql = "SELECT bucket, round(gpu_hours, 6) AS hours FROM gold_ledger_buckets WHERE gpu_hours > 0 ORDER BY bucket"
    assert {row["bucket"]: row["hours"] for row in rows_of(zoo, sql)} == pytest.approx(
        {
            "down": 2 * 80 / 60 + 1,
            "failed": 4 + 65 / 60,
            "idle": 16,
            "interrupted": 3.5,
            "unallocated": 112 - (2 * 80 / 60 + 1 + 4 + 65 / 60 + 16 + 3.5 + 8 + 2.5 + 2.5 + 55 / 60 + 8 / 7 + 16),
            "unobserved": 8 + 2.5 + 2.5 + 55 / 60 + 8 / 7,
            "used": 16,
        }
    )


def test_the_wait_in_a_queue_and_the_wait_for_a_node_are_apart(zoo: Lake) -> None:
    sql = (
        "SELECT split_part(job_id, '/', 2) AS job, planned_instances, requested_gpus, launch_wait_seconds,"
        " start_wait_seconds FROM silver_tasks WHERE split_part(job_id, '/', 2) IN ('admitted', 'held') ORDER BY job"
    )
    assert clocks(rows_of(zoo, sql)) == [("admitted", 1, 1, 3600, 1800), ("held", 1, 8, 0, None)]


def test_a_job_says_why_it_waited_also_when_it_runs(tmp_path: Path) -> None:
    said = {
        "gpu": "0/4 nodes are available: 1 node(s) had untolerated taint {a: b}, 3 Insufficient nvidia.com/gpu.",
        "taint": "0/4 nodes are available: 4 node(s) had untolerated taint {nvidia.com/gpu: }. preemption: none.",
        "place": "0/4 nodes are available: 4 node(s) didn't match Pod's node affinity/selector.",
        "gate": "Scheduling is blocked due to non-empty scheduling gates",
    }
    why = {name: "SchedulingGated" if name == "gate" else "Unschedulable" for name in said}
    early = [
        pod(metadata(name, "nlp"), "", gpus(1), phase="Pending", conditions=[
            condition("PodScheduled", "False", reason=why[name], message=message)
        ])
        for name, message in said.items()
    ]  # fmt: skip
    late = [pod(metadata("gpu", "nlp"), "gpu-1", gpus(1), "10:30"), *early[1:]]
    files = {"early.json": snapshot("10:00", *early), "late.json": snapshot("11:00", *late, *queued("11:00"))}
    lake = built_from(tmp_path, files)
    rows = rows_of(lake, "SELECT split_part(job_id, '/', 2) AS job, status, wait_reason FROM silver_jobs ORDER BY job")
    assert clocks(rows) == [
        ("admitted", "waiting", None),
        ("gate", "waiting", "SchedulingGated"),
        ("gpu", "running", "Insufficient nvidia.com/gpu"),
        ("held", "waiting", "Quota"),
        ("place", "waiting", "NodeAffinity"),
        ("taint", "waiting", "Taint"),
    ]
    assert rows_of(lake, "SELECT wait_message FROM silver_pod_runs WHERE pod_name = 'gpu'") == [
        {"wait_message": said["gpu"]}
    ]


def test_nodes_are_the_inventory_and_their_states_are_outages(zoo: Lake) -> None:
    machines = rows_of(zoo, "SELECT machine_id, gpus, gpu_type, cores FROM silver_machines ORDER BY 1")
    h100 = "NVIDIA-H100-80GB-HBM3"
    assert clocks(machines) == [
        ("cpu-1", 0, None, 96),
        *((f"gpu-{number}", count, h100, 96) for number, count in enumerate((8, 8, 8, 1, 2, 1), 1)),
    ]
    outages = rows_of(
        zoo,
        "SELECT machine_id, basis, started_at, ended_at FROM silver_outages JOIN silver_machines USING (machine_key)"
        " ORDER BY ALL",
    )
    assert clocks(outages) == [("gpu-5", "reported", "11:20", "12:40"), ("gpu-6", "reported", "13:00", "14:00")]


def test_events_of_nodes_have_the_severity_of_the_catalogue(zoo: Lake) -> None:
    sql = "SELECT * EXCLUDE (event_key, host_id, pid, message) FROM silver_node_events ORDER BY ALL"
    assert clocks(rows_of(zoo, sql)) == [
        ("zoo", "gpu-1", "11:00", "oom_kill", "train-a", None, "kubernetes", "info"),
        ("zoo", "gpu-1", "11:45", "pod_evicted", "spot", None, "kubernetes", "info"),
        ("zoo", "gpu-5", "11:20", "xid", "0000:3b:00", 79, "kubernetes", "critical"),
    ]


def test_what_a_list_of_another_namespace_lacks_is_not_gone(tmp_path: Path) -> None:
    early = snapshot("10:00", *gang("10:00"), *nodes("10:00"))
    others = [pod(metadata(name, name), "gpu-1", gpus(1), "11:00") for name in ("audio", "vision")]
    late = snapshot("12:00", *others, namespaces=("audio", "vision"))
    lake = built_from(tmp_path, {"early.json": early, "late.json": late})
    rows = rows_of(lake, "SELECT split_part(job_id, '/', 2) AS job, status FROM silver_jobs ORDER BY 1")
    assert rows == [{"job": name, "status": "running"} for name in ("audio", "llm", "vision")]


def test_an_empty_list_of_a_pull_ends_what_ran_and_one_saved_by_hand_does_not(tmp_path: Path) -> None:
    early = snapshot("10:00", *gang("10:00"), *nodes("10:00"), cluster="kubernetes")
    for name, late, status in (
        ("pulled", snapshot("12:00", *nodes("10:00"), cluster="kubernetes"), "cancelled"),
        ("by-hand", story.kubectl(*nodes("10:00")), "running"),
    ):
        lake = built_from(tmp_path / name, {"early.json": early, "late.json": late})
        assert rows_of(lake, "SELECT status FROM silver_jobs") == [{"status": status}]


def claim(name: str, holders: tuple[str, ...], *devices: str, driver: str = "gpu.nvidia.com", **more: Any) -> Object:
    results = [{"request": "gpu", "driver": driver, "pool": "dra-1", "device": device, **more} for device in devices]
    reserved = [{"resource": "pods", "name": uid.removeprefix("uid-"), "uid": uid} for uid in holders]
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": metadata(name, "nlp"),
        "status": {"allocation": {"devices": {"results": results}}, "reservedFor": reserved} if holders else {},
    }


def offer(name: str, *devices: tuple[str, str], is_beta: bool = False) -> Object:
    """A slice of a node's pool, in version 1 or v1beta1."""
    listed = []
    for device, kind in devices:
        told = {"attributes": {"type": {"string": kind}, "productName": {"string": "NVIDIA H100 80GB HBM3"}}}
        listed.append({"name": device, **({"basic": told} if is_beta else told)})
    return {
        "apiVersion": f"resource.k8s.io/{'v1beta1' if is_beta else 'v1'}",
        "kind": "ResourceSlice",
        "metadata": metadata(name),
        "spec": {"driver": "gpu.nvidia.com", "nodeName": "dra-1", "pool": {"name": "dra-1"}, "devices": listed},
    }


def test_gpus_of_resource_claims_are_held_and_those_of_slices_are_capacity(tmp_path: Path) -> None:
    """Three GPUs on one node: a pod on one, two that share one, one on a MIG instance, and one that only looks on."""

    def told(clock: str) -> list[Object]:
        names = ("whole", "half-a", "half-b", "slice", "watcher")
        pods = [pod(metadata(name, "nlp"), "dra-1", {}, "10:00") for name in names]
        pods += [pod(metadata("queued", "nlp"), "", {}, phase="Pending")]
        if clock == "12:00":  # over, and their claims freed
            pods = [
                pod(
                    metadata("whole", "nlp"),
                    "dra-1",
                    {},
                    "10:00",
                    "Succeeded",
                    containerStatuses=[ran("10:00", "11:30")],
                )
            ]
        claims = [
            claim("one", ("uid-whole",), "gpu-0"),
            claim("both", ("uid-half-a", "uid-half-b"), "gpu-1"),
            claim("mig", ("uid-slice",), "gpu-2-mig-1g10gb-19-0"),
            claim("look", ("uid-watcher",), "gpu-0", adminAccess=True),
            claim("nic", ("uid-whole",), "ens1", driver="dra.net"),
            claim("none", ()),
        ]
        slices = [
            offer("s1", ("gpu-0", "gpu"), ("gpu-1", "gpu")),
            offer("s2", ("gpu-2", "gpu"), ("gpu-2-mig", "mig"), is_beta=True),
        ]
        return [*pods, *(claims if clock < "12:00" else []), *slices, node("dra-1", {})]

    clocks_ = ("10:30", "11:00", "12:00")
    lake = built_from(tmp_path, {f"{one}.json": snapshot(one, *told(one)) for one in clocks_})
    held = "SELECT pod_name, round(gpus, 4) AS gpus FROM silver_pod_runs WHERE gpus > 0 ORDER BY pod_name"
    assert [tuple(row.values()) for row in rows_of(lake, held)] == [
        ("half-a", 0.5), ("half-b", 0.5), ("slice", 0.1429), ("whole", 1.0),
    ]  # fmt: skip
    machines = "SELECT machine_id, gpus, gpu_type, gpu_model FROM silver_machines"
    assert [tuple(row.values()) for row in rows_of(lake, machines)] == [("dra-1", 3, "NVIDIA H100 80GB HBM3", "H100")]


def test_the_report_of_a_job_has_the_gpus_of_its_pods(zoo: Lake) -> None:
    (job,) = rows_of(zoo, "SELECT DISTINCT job_id FROM silver_pod_runs WHERE pod_name = 'llm-0'")
    with zoo.reading() as reader:
        report = job_report(reader, zoo.config, str(job["job_id"]))
    assert [(gpu.node, gpu.busy_ratio) for gpu in report.gpus] == [("gpu-2", 1.0)] * 4 + [("gpu-2", 0.0)] * 4
