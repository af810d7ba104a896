"""gpulake pull kubernetes against a scripted API server, and the files that real kubectl writes of it."""

from __future__ import annotations

import base64
import json
import shutil
import ssl
import subprocess
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from conftest import rows_of
from gpulake.core.clock import FrozenClock
from gpulake.core.config import Config
from gpulake.core.errors import ConfigError, PullError
from gpulake.core.http_client import HttpClient
from gpulake.flow import Flow
from gpulake.flow.pulling import PullResult
from gpulake.pull.kubeconfig import access
from gpulake.pull.kubernetes import KubernetesPull
from live_server import certificates
from model.kubernetes_story import gpus, job, kubectl, metadata, node, pod
from pull.kubernetes_api import ApiServer

__all__ = ["certificates"]  # a fixture
PODS, NODES, JOBS = "/api/v1/pods", "/api/v1/nodes", "/apis/batch/v1/jobs"


@pytest.fixture
def server() -> Iterator[ApiServer]:
    secret = {"name": "API_KEY", "value": "hunter2"}
    pods = [pod(metadata(f"train-{number}", "vision"), "gpu-1", gpus(1), "10:00") for number in range(5)]
    pods[0]["spec"]["containers"][0]["env"] = [secret]
    objects = {PODS: pods, NODES: [node("gpu-1", gpus(8))], "/api/v1/events": [], JOBS: [job(metadata("j", "nlp"), {})]}
    with ApiServer(objects).listening() as listening:
        yield listening


def kubeconfig(folder: Path, url: str, authority: str = "", **user: Any) -> str:
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "dev",
        "contexts": [{"name": "dev", "context": {"cluster": "c", "user": "u"}}],
        "clusters": [{"name": "c", "cluster": {"server": url, "certificate-authority": authority}}],
        "users": [{"name": "u", "user": user or {"token": "secret"}}],
    }
    file = folder / "config"
    file.write_text(json.dumps(document))
    return str(file)


def pulled(tmp_path: Path, config: Config, clock: FrozenClock, url: str, **options: Any) -> tuple[Flow, PullResult]:
    waits: list[float] = []
    flow = Flow(config, clock, wait=waits.append)
    source = KubernetesPull(kubeconfig(tmp_path, url), cluster="Zoo", page_objects=2, environment={}, **options)
    return flow, flow.pull(source)


def objects(config: Config) -> dict[str, int]:
    flow = Flow(config)
    rows = rows_of(flow.lake, "SELECT kind, count(*) AS n FROM bronze_kubernetes_objects GROUP BY kind ORDER BY kind")
    return {str(row["kind"]): int(str(row["n"])) for row in rows}


ALL = {"Job": 1, "Node": 1, "Pod": 5, "Snapshot": 1}


def test_a_pull_is_a_snapshot_of_all_pages_at_the_time_of_the_server(
    server: ApiServer, tmp_path: Path, config: Config, clock: FrozenClock
) -> None:
    flow, result = pulled(tmp_path, config, clock, server.url)
    assert (result.rows_landed, result.rows_quarantined) == (8, 0)
    assert objects(config) == ALL
    heads = rows_of(
        flow.lake,
        "SELECT DISTINCT cluster, snapshot_at FROM bronze_kubernetes_objects WHERE kind != 'Snapshot'",
    )
    assert heads == [{"cluster": "Zoo", "snapshot_at": datetime(2026, 5, 1, 12, tzinfo=UTC)}]
    (snapshot,) = rows_of(
        flow.lake, "SELECT listed_kinds, listed_namespaces FROM bronze_kubernetes_objects WHERE kind = 'Snapshot'"
    )
    assert snapshot == {"listed_kinds": "Pod,Node,Event,Job", "listed_namespaces": "*"}
    assert "pytorchjobs.kubeflow.org: not there" in result.notes
    assert "workloads.kueue.x-k8s.io: not there" in result.notes
    assert not list((config.lake / "pulled").rglob("*.json"))


def test_a_list_whose_pages_expired_is_read_again_from_its_begin(
    server: ApiServer, tmp_path: Path, config: Config, clock: FrozenClock
) -> None:
    server.expiring = 2
    pulled(tmp_path, config, clock, server.url)
    assert objects(config) == ALL


def test_a_list_that_expires_again_and_again_is_an_error_and_lands_nothing(
    server: ApiServer, tmp_path: Path, config: Config, clock: FrozenClock
) -> None:
    server.expiring = 9
    with pytest.raises(PullError, match="410"):
        pulled(tmp_path, config, clock, server.url)
    assert rows_of(Flow(config).lake, "FROM landings") == []


def test_a_server_that_is_down_for_a_moment_is_asked_again(
    server: ApiServer, tmp_path: Path, config: Config, clock: FrozenClock
) -> None:
    server.scripted = [503, 500, 200, 429, 200]
    pulled(tmp_path, config, clock, server.url)
    assert objects(config) == ALL


def test_what_may_not_be_listed_is_skipped_and_said_but_pods_are_needed(
    server: ApiServer, tmp_path: Path, config: Config, clock: FrozenClock
) -> None:
    server.forbidden = {NODES}
    _, result = pulled(tmp_path, config, clock, server.url)
    assert "nodes: not allowed" in result.notes
    assert objects(config) == {"Job": 1, "Pod": 5, "Snapshot": 1}
    server.forbidden = {PODS}
    later = FrozenClock(clock.now() + timedelta(minutes=1))
    with pytest.raises(PullError, match="403") as caught:
        pulled(tmp_path, config, later, server.url)
    assert "docs/kubernetes.md" in caught.value.hint


def test_a_token_that_is_not_accepted_is_an_error_without_the_token(
    server: ApiServer, tmp_path: Path, config: Config, clock: FrozenClock
) -> None:
    server.token = "another"
    with pytest.raises(PullError, match="401") as caught:
        pulled(tmp_path, config, clock, server.url)
    assert "secret" not in str(caught.value)


def test_namespaces_are_listed_one_by_one_and_the_snapshot_names_them(
    server: ApiServer, tmp_path: Path, config: Config, clock: FrozenClock
) -> None:
    server.objects["/api/v1/namespaces/vision/pods"] = server.objects[PODS][:3]
    flow, _ = pulled(tmp_path, config, clock, server.url, namespaces=("vision",))
    assert objects(config) == {"Node": 1, "Pod": 3, "Snapshot": 1}
    assert rows_of(
        flow.lake, "SELECT DISTINCT listed_namespaces AS names FROM bronze_kubernetes_objects ORDER BY 1"
    ) == [
        {"names": "vision"},
        {"names": None},
    ]


def test_environments_of_containers_are_not_saved(
    server: ApiServer, tmp_path: Path, config: Config, clock: FrozenClock
) -> None:
    pulled(tmp_path, config, clock, server.url)
    texts = [path.read_bytes() for path in config.lake.rglob("*") if path.is_file()]
    assert not any(b"hunter2" in text for text in texts)


def test_a_client_certificate_and_the_authority_of_the_kubeconfig_are_used(
    server: ApiServer, tmp_path: Path, certificates: Callable[..., None]
) -> None:
    for name in ("server", "admin"):
        certificates(tmp_path, name)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=str(tmp_path / "ca.pem"))
    context.load_cert_chain(tmp_path / "server.pem", tmp_path / "server.key")
    context.verify_mode = ssl.CERT_REQUIRED
    files = {"client-certificate-data": "admin.pem", "client-key-data": "admin.key"}
    user = {key: base64.b64encode((tmp_path / name).read_bytes()).decode() for key, name in files.items()}
    with ApiServer(server.objects, token="", tls=context).listening() as safe:
        found = access(kubeconfig(tmp_path, safe.url, "ca.pem", **user), "", {})
        answer = HttpClient(found.url, found.headers, found.context).ask(NODES)
        assert len(json.loads(answer.body)["items"]) == 1
        strange = access(kubeconfig(tmp_path, safe.url, "", **user), "", {})
        with pytest.raises(PullError, match="certificate does not verify"):
            HttpClient(strange.url, strange.headers, strange.context).ask(NODES)


def test_a_token_is_not_sent_in_the_clear(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="in the clear"):
        access(kubeconfig(tmp_path, "http://10.0.0.1:8080"), "", {})


def test_a_pod_asks_with_its_own_account(tmp_path: Path, certificates: Callable[..., None]) -> None:
    certificates(tmp_path, "server")
    (tmp_path / "token").write_text("own\n")
    (tmp_path / "ca.pem").rename(tmp_path / "ca.crt")
    own = {"KUBERNETES_SERVICE_HOST": "10.0.0.1", "KUBERNETES_SERVICE_PORT": "6443", "HOME": str(tmp_path)}
    found = access("", "", own, tmp_path)
    assert (found.url, dict(found.headers)) == ("https://10.0.0.1:6443", {"Authorization": "Bearer own"})


def test_an_exec_plugin_is_started_from_its_list_of_arguments(tmp_path: Path) -> None:
    given = json.dumps({"kind": "ExecCredential", "status": {"token": "minted; $HOME"}})
    plugin = {"apiVersion": "client.authentication.k8s.io/v1", "command": "/bin/echo", "args": [given]}
    found = access(kubeconfig(tmp_path, "http://127.0.0.1:1", exec=plugin), "", {})
    assert found.headers == {"Authorization": "Bearer minted; $HOME"}


@pytest.mark.parametrize(
    ("user", "words"),
    [
        ({"exec": {"command": "/nowhere/plugin", "installHint": "install it"}}, "exec plugin"),
        ({"exec": {"command": "/bin/echo", "args": ["hello"]}}, "no ExecCredential"),
        ({"auth-provider": {"name": "gcp"}}, "auth-provider"),
    ],
)
def test_what_gives_no_credential_is_an_error(tmp_path: Path, user: dict[str, Any], words: str) -> None:
    with pytest.raises((PullError, ConfigError), match=words):
        access(kubeconfig(tmp_path, "http://127.0.0.1:1", **user), "", {})


def test_an_unknown_context_names_those_that_there_are(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no context 'prod'") as caught:
        access(kubeconfig(tmp_path, "http://127.0.0.1:1"), "prod", {})
    assert caught.value.hint == "--context, one of: dev"


def test_saved_lists_are_of_the_cluster_that_is_named_and_stay_where_they_are(
    tmp_path: Path, config: Config, clock: FrozenClock
) -> None:
    saved = tmp_path / "saved"
    saved.mkdir()
    (saved / "nodes.json").write_text(kubectl(node("gpu-1", gpus(8))))
    flow = Flow(config, clock)
    flow.pull(KubernetesPull(cluster="zoo", saved=saved))
    rows = rows_of(flow.lake, "SELECT cluster, kind FROM bronze_kubernetes_objects ORDER BY kind")
    assert rows == [{"cluster": "zoo", "kind": kind} for kind in ("Node", "Snapshot")]
    assert (saved / "nodes.json").exists()


@pytest.mark.parametrize("text", ["hello", '{"items": [{"kind": "Pod", '])
def test_a_saved_file_that_is_broken_is_named_and_costs_only_itself(
    tmp_path: Path, config: Config, clock: FrozenClock, text: str
) -> None:
    saved = tmp_path / "saved"
    saved.mkdir()
    (saved / "nodes.json").write_text(kubectl(node("gpu-1", gpus(8))))
    (saved / "broken.json").write_text(text)
    flow = Flow(config, clock)
    with pytest.raises(PullError, match=r"broken\.json .*\(2 rows have landed\)"):
        flow.pull(KubernetesPull(cluster="zoo", saved=saved))
    rows = rows_of(flow.lake, "SELECT kind FROM bronze_kubernetes_objects ORDER BY kind")
    assert rows == [{"kind": "Node"}, {"kind": "Snapshot"}]


@pytest.mark.skipif(shutil.which("kubectl") is None, reason="needs kubectl (Debian: kubernetes-client)")
def test_what_kubectl_prints_lands(server: ApiServer, tmp_path: Path, config: Config, clock: FrozenClock) -> None:
    server.token = ""  # kubectl sends none over plain HTTP
    environment = {"KUBECONFIG": kubeconfig(tmp_path, server.url), "HOME": str(tmp_path), "PATH": "/usr/bin:/bin"}
    words = ["kubectl", "get", "pods,nodes,events,jobs", "-A", "-o", "json"]
    printed = subprocess.run(words, env=environment, capture_output=True, check=True, text=True)
    (tmp_path / "all.json").write_text(printed.stdout)
    Flow(config, clock).land([tmp_path / "all.json"])
    assert objects(config) == {"Job": 1, "Node": 1, "Pod": 5}
