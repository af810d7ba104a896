"""`gpulake recover` on a real API server: nodes are cordoned and returned, Jobs made anew or resumed."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from gpulake.act.commands import Outcome, run, small_environment
from gpulake.act.recoveries import RECOVERIES, Command, Order
from gpulake.core.recovery_settings import Recoveries
from live_server import certificates
from pull.real_kubernetes import ADMIN, RealKubernetes, needs_kubernetes, running
from pull.test_real_kubernetes import kubeconfig

__all__ = ["certificates"]  # a fixture
pytestmark = [
    pytest.mark.slow,
    needs_kubernetes,
    pytest.mark.skipif(shutil.which("kubectl") is None, reason="needs kubectl"),
]
JOBS = "/apis/batch/v1/namespaces/vision/jobs"
PODS = "/api/v1/namespaces/vision/pods"
POD = {"containers": [{"name": "c", "image": "pause"}], "restartPolicy": "Never"}
KUBERNETES = RECOVERIES.get("kubernetes")(Recoveries())


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, certificates: Callable[..., None]) -> Iterator[RealKubernetes]:
    with running(tmp_path_factory.mktemp("kubernetes"), certificates) as server:
        server.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "vision"}})
        server.create({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "gpu-1"}})
        yield server


@pytest.fixture
def cluster(server: RealKubernetes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> RealKubernetes:
    monkeypatch.setenv("KUBECONFIG", kubeconfig(server, tmp_path, token=ADMIN))
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("PATH", os.environ["PATH"])
    return server


def taken(command: Command) -> Outcome:
    return run(command.arguments, 60, small_environment())


def submit(server: RealKubernetes, name: str, **spec: Any) -> dict[str, Any]:
    template = {"metadata": {"labels": {"team": "a"}}, "spec": POD}
    job = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name, "namespace": "vision"}}
    return server.create({**job, "spec": {"backoffLimit": 0, "template": template, **spec}})


def restart(job: dict[str, Any]) -> Outcome:
    """By the name that `pull kubernetes` gives it."""
    (command,) = KUBERNETES.restart(Order("4f1c", 1, f"vision/{job['metadata']['name']}/{job['metadata']['uid'][:8]}"))
    return taken(command)


def test_a_node_is_cordoned_and_returned(cluster: RealKubernetes) -> None:
    order = Order("4f1c", 1, "train", node="gpu-1")
    for take, expected in ((KUBERNETES.cordon, True), (KUBERNETES.uncordon, None)):
        (command,) = take(order)
        assert taken(command).status == "done"
        assert cluster.ask("GET", "/api/v1/nodes/gpu-1")["spec"].get("unschedulable") is expected


def test_a_job_that_failed_for_good_is_made_anew_once(cluster: RealKubernetes) -> None:
    job = submit(cluster, "failed")
    ended = [{"type": kind, "status": "True", "reason": "BackoffLimitExceeded"} for kind in ("FailureTarget", "Failed")]
    status = {"failed": 1, "startTime": "2026-05-01T10:00:00Z", "conditions": ended}
    cluster.ask("PATCH", f"{JOBS}/failed/status", {"status": status})
    assert restart(job).status == "done"
    fresh = cluster.ask("GET", f"{JOBS}/failed")
    assert fresh["metadata"]["uid"] != job["metadata"]["uid"]
    assert fresh["status"] == {}
    assert fresh["spec"]["backoffLimit"] == 0
    assert fresh["spec"]["template"]["metadata"]["labels"]["team"] == "a"
    again = restart(job)
    assert (again.status, "was made anew since" in again.detail) == ("failed", True)


def test_a_suspended_job_is_resumed(cluster: RealKubernetes) -> None:
    job = submit(cluster, "suspended", suspend=True)
    assert restart(job).status == "done"
    after = cluster.ask("GET", f"{JOBS}/suspended")
    assert (after["spec"]["suspend"], after["metadata"]["uid"]) == (False, job["metadata"]["uid"])


def test_of_a_job_that_still_tries_the_pods_are_deleted(cluster: RealKubernetes) -> None:
    job = submit(cluster, "trying", backoffLimit=6)
    for name in ("trying", "other"):
        labels = {"batch.kubernetes.io/job-name": name}
        meta = {"name": f"{name}-0", "namespace": "vision", "labels": labels}
        cluster.create({"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": POD})
    (query, read) = (KUBERNETES.nodes(Order("4f1c", 1, "vision/trying/" + job["metadata"]["uid"][:8])), str.split)
    assert query is not None
    assert read(run(query.arguments, 60, small_environment()).detail) == []  # it waits for a node
    assert restart(job).status == "done"
    assert [pod["metadata"]["name"] for pod in cluster.ask("GET", PODS)["items"]] == ["other-0"]
    without = restart(job)
    assert (without.status, "no pod has" in without.detail) == ("failed", True)
