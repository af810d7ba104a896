"""gpulake pull kubernetes from a real API server: over TLS, with the role of docs/kubernetes.md, through kills."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from conftest import rows_of
from gpulake.core.clock import FrozenClock
from gpulake.core.config import Config
from gpulake.core.errors import PullError
from gpulake.core.http_client import HttpClient
from gpulake.flow import Flow
from gpulake.pull.kubernetes import KubernetesPull
from live_server import certificates
from model.kubernetes_story import Object, condition, event, gpus, job, metadata, node, pod, ran
from pull.real_kubernetes import READER, RealKubernetes, needs_kubernetes, running

__all__ = ["certificates"]  # a fixture
pytestmark = [pytest.mark.slow, needs_kubernetes]
ROOT = Path(__file__).parents[2]
CLI = [sys.executable, "-c", "from gpulake.cli import main; main()"]
COUNTS = "SELECT kind, count(*) AS n FROM bronze_kubernetes_objects GROUP BY kind ORDER BY kind"
JOBS = (
    "SELECT split_part(job_id, '/', 2) AS job, jobs.status, requested_gpus, wait_reason"
    " FROM silver_jobs AS jobs JOIN silver_tasks USING (job_key, job_id) ORDER BY job"
)
WAITING = "0/1 nodes are available: 1 Insufficient nvidia.com/gpu."


def sent(found: Object) -> Object:
    """Without what only the server sets, and with what it insists on."""
    meta = {key: value for key, value in found["metadata"].items() if key not in ("uid", "creationTimestamp")}
    spec = found.get("spec", {})
    for pods in (spec, spec.get("template", {}).get("spec", {})):
        for container in pods.get("containers", ()):
            container["image"] = "pause"
            pods["restartPolicy"] = "Never"
    return {**found, "metadata": meta}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, certificates: Callable[..., None]) -> Iterator[RealKubernetes]:
    with running(tmp_path_factory.mktemp("kubernetes"), certificates) as server:
        for name in ("vision", "nlp"):
            server.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
        for found in _objects_of_the_docs():
            server.create(found)
        server.create(sent(node("gpu-1", gpus(8))))
        done: Object = {
            "conditions": [condition(kind, since="11:00") for kind in ("SuccessCriteriaMet", "Complete")],
            "startTime": "2026-05-01T10:00:00Z",
            "completionTime": "2026-05-01T11:00:00Z",
            "succeeded": 1,
        }
        owner = server.create(sent(job(metadata("train", "vision"), gpus(4), **done)))
        over: Object = {"phase": "Succeeded", "containerStatuses": [ran("10:00", "11:00")]}
        server.create(sent(pod(metadata("train-x", "vision", owner=owner), "gpu-1", gpus(4), "10:00", **over)))
        for number in range(4):
            server.create(sent(pod(metadata(f"serve-{number}", "nlp"), "gpu-1", gpus(1), "10:00")))
        why = condition("PodScheduled", "False", reason="Unschedulable", message=WAITING)
        waiting = pod(metadata("large", "nlp"), "", gpus(8), phase="Pending", conditions=[why])
        made = server.create(sent(waiting))
        server.create(sent(event("large.1", "FailedScheduling", made, "10:00", WAITING) | {"metadata": {
            "name": "large.1", "namespace": "nlp"}}))  # fmt: skip
        yield server


def _objects_of_the_docs() -> list[Object]:
    """The role of docs/kubernetes.md, given to a user instead of a service account."""
    yaml = pytest.importorskip("yaml")
    (text,) = re.findall(r"```yaml\n(.*?)```", (ROOT / "docs/kubernetes.md").read_text(), re.DOTALL)
    role, binding = yaml.safe_load_all(text)
    user = {"kind": "User", "name": "gpulake", "apiGroup": "rbac.authorization.k8s.io"}
    return [role, binding | {"subjects": [user]}]


def kubeconfig(server: RealKubernetes, folder: Path, token: str = READER, host: str = "localhost") -> str:
    cluster = {"server": f"https://{host}:{server.port}", "certificate-authority": str(server.folder / "ca.pem")}
    document = {
        "current-context": "dev",
        "contexts": [{"name": "dev", "context": {"cluster": "c", "user": "u"}}],
        "clusters": [{"name": "c", "cluster": cluster}],
        "users": [{"name": "u", "user": {"token": token}}],
    }
    file = folder / "config"
    file.write_text(json.dumps(document))
    return str(file)


def pull(server: RealKubernetes, folder: Path, *more: str) -> subprocess.Popen[str]:
    words = ["pull", "kubernetes", "--lake", str(folder / "lake"), "--cluster", "zoo"]
    return subprocess.Popen(
        [*CLI, *words, "--kubeconfig", kubeconfig(server, folder), *more],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "NO_COLOR": "1"},
        cwd=folder,
    )


def counts(lake: Path) -> dict[str, int]:
    return {str(row["kind"]): int(str(row["n"])) for row in rows_of(Flow(Config(lake=lake)).lake, COUNTS)}


LISTED = {"Event": 1, "Job": 1, "Node": 1, "Pod": 6, "Snapshot": 1}


def test_a_pull_that_was_killed_and_a_server_that_restarted_leave_each_object_once(
    server: RealKubernetes, tmp_path: Path
) -> None:
    server.signal(signal.SIGSTOP)  # it takes the connection and says nothing
    with pull(server, tmp_path) as process:
        while process.poll() is None and not list((tmp_path / "lake").rglob("objects.part")):
            time.sleep(0.01)
        process.kill()
    assert process.returncode == -signal.SIGKILL
    server.stop("kube-apiserver")
    server.start()
    with pull(server, tmp_path, "--refresh") as process:
        _, complaints = process.communicate()
    assert process.returncode == 0, complaints
    assert counts(tmp_path / "lake") == LISTED
    assert not list((tmp_path / "lake").rglob("objects.part"))
    lake = Flow(Config(lake=tmp_path / "lake")).lake
    insufficient = "Insufficient nvidia.com/gpu"
    assert [tuple(row.values()) for row in rows_of(lake, JOBS)] == [
        ("large", "waiting", 8.0, insufficient),
        *((f"serve-{number}", "running", 1.0, None) for number in range(4)),
        ("train", "succeeded", 4.0, None),
    ]
    assert rows_of(lake, "SELECT machine_id, gpus, gpu_type FROM silver_machines") == [
        {"machine_id": "gpu-1", "gpus": 8, "gpu_type": "NVIDIA-H100-80GB-HBM3"}
    ]


def test_pages_of_a_revision_that_etcd_compacted_are_asked_for_again(
    server: RealKubernetes, tmp_path: Path, config: Config, clock: FrozenClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[Any] = []
    ask = HttpClient.ask

    def watched(client: HttpClient, path: str, parameters: Any = None) -> Any:
        answer = ask(client, path, parameters)
        asked.append((path, "continue" in (parameters or {})))
        if len([one for one in asked if one == ("/api/v1/pods", False)]) == 1 and path == "/api/v1/pods":
            server.ask("PATCH", "/api/v1/nodes/gpu-1", {"metadata": {"labels": {"seen": str(len(asked))}}})
            server.compact()
        return answer

    monkeypatch.setattr(HttpClient, "ask", watched)
    flow = Flow(config, clock)
    flow.pull(KubernetesPull(kubeconfig(server, tmp_path), page_objects=2, environment={}))
    assert asked.count(("/api/v1/pods", False)) == 2  # the second time from its begin
    assert counts(config.lake) == LISTED


def test_what_the_server_refuses_and_a_certificate_of_another_name_are_errors(
    server: RealKubernetes, tmp_path: Path, config: Config, clock: FrozenClock
) -> None:
    flow = Flow(config, clock, wait=lambda _: None)

    def refuses(words: str, **access: str) -> None:
        with pytest.raises(PullError, match=words):
            flow.pull(KubernetesPull(kubeconfig(server, tmp_path, **access), environment={}))

    refuses("certificate does not verify", host="127.0.0.1")
    refuses("401", token="stolen")
    server.ask("DELETE", "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings/gpulake")
    refuses("403")
    server.create(_objects_of_the_docs()[1])
    later = Flow(config, FrozenClock(clock.now() + timedelta(minutes=1)))
    later.pull(KubernetesPull(kubeconfig(server, tmp_path), environment={}))
    assert counts(config.lake) == LISTED
