"""A real API server of Kubernetes with its etcd, on loopback with TLS. No kubelet, scheduler or controller runs:
objects and their statuses are written through the API, as these would."""

from __future__ import annotations

import json
import shutil
import signal
import ssl
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from pull.real_prometheus import free_port

needs_kubernetes = pytest.mark.skipif(
    not (shutil.which("kube-apiserver") and shutil.which("etcd")),
    reason="needs kube-apiserver (scripts/kube-apiserver builds it) and the Debian package etcd-server",
)
DEADLINE_SECONDS = 90
ADMIN, READER = "admin-token", "reader-token"
PLURALS = {
    "Namespace": ("api/v1", "namespaces"),
    "Node": ("api/v1", "nodes"),
    "Pod": ("api/v1", "pods"),
    "Event": ("api/v1", "events"),
    "Job": ("apis/batch/v1", "jobs"),
    "ClusterRole": ("apis/rbac.authorization.k8s.io/v1", "clusterroles"),
    "ClusterRoleBinding": ("apis/rbac.authorization.k8s.io/v1", "clusterrolebindings"),
    "ResourceClaim": ("apis/resource.k8s.io/v1", "resourceclaims"),
    "ResourceSlice": ("apis/resource.k8s.io/v1", "resourceslices"),
}


class RealKubernetes:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.etcd_url, self._peer_url = (f"http://127.0.0.1:{free_port()}" for _ in range(2))
        self.port = free_port()
        self.url = f"https://localhost:{self.port}"
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        tokens = [f'{ADMIN},admin,admin,"system:masters"', f"{READER},gpulake,gpulake"]
        (folder / "tokens.csv").write_text("\n".join(tokens) + "\n")
        self._tls = ssl.create_default_context(cafile=str(folder / "ca.pem"))

    def start(self) -> None:
        own = self.folder
        if "etcd" not in self._processes:
            urls = ["--listen-client-urls", self.etcd_url, "--advertise-client-urls", self.etcd_url]
            peers = ["--listen-peer-urls", self._peer_url]
            self._run("etcd", "--data-dir", str(own / "etcd"), *urls, *peers)
        key, certificate = str(own / "server.key"), str(own / "server.pem")
        self._run(
            *("kube-apiserver", "--etcd-servers", self.etcd_url, "--bind-address", "127.0.0.1"),
            *("--secure-port", str(self.port), "--tls-cert-file", certificate, "--tls-private-key-file", key),
            *("--service-account-issuer", "https://localhost", "--service-account-key-file", certificate),
            *("--service-account-signing-key-file", key, "--token-auth-file", str(own / "tokens.csv")),
            *("--authorization-mode", "RBAC", "--service-cluster-ip-range", "10.0.0.0/24"),
            # Lists come from etcd, whose compaction ends the life of their pages.
            *("--disable-admission-plugins", "ServiceAccount", "--watch-cache=false"),
        )
        deadline = time.monotonic() + DEADLINE_SECONDS
        while time.monotonic() < deadline:
            try:
                self.ask("GET", "/readyz")
            except (OSError, AssertionError):
                time.sleep(0.05)
            else:
                return
        log = (own / "kube-apiserver.log").read_text()[-2000:]
        raise AssertionError(f"the API server was not ready within {DEADLINE_SECONDS} seconds: {log}")

    def stop(self, *names: str) -> None:
        for name in names or tuple(self._processes):
            process = self._processes.pop(name)
            process.send_signal(signal.SIGCONT)
            process.kill()
            process.wait()

    def signal(self, number: signal.Signals) -> None:
        self._processes["kube-apiserver"].send_signal(number)

    def ask(self, verb: str, path: str, document: object = None) -> Any:
        headers = {"Authorization": f"Bearer {ADMIN}", "Content-Type": "application/json"}
        if verb == "PATCH":
            headers["Content-Type"] = "application/merge-patch+json"
        body = None if document is None else json.dumps(document).encode()
        request = urllib.request.Request(self.url + path, body, headers, method=verb)
        try:
            with urllib.request.urlopen(request, timeout=20, context=self._tls) as answer:
                text = answer.read().decode()
        except urllib.error.HTTPError as error:
            raise AssertionError(f"{verb} {path}: {error.code} {error.read().decode()}") from None
        return json.loads(text) if text.startswith("{") else text

    def create(self, found: dict[str, Any]) -> dict[str, Any]:
        """An object, and its status, which is written apart; it returns as the server has it, with its uid."""
        status = found.get("status")
        root, plural = PLURALS[found["kind"]]
        namespace = found["metadata"].get("namespace")
        path = f"/{root}/{f'namespaces/{namespace}/' if namespace else ''}{plural}"
        made = self.ask("POST", path, {key: value for key, value in found.items() if key != "status"})
        if status:
            made = self.ask("PATCH", f"{path}/{made['metadata']['name']}/status", {"status": status})
        return dict(made)

    def compact(self) -> None:
        """What etcd does to old revisions every five minutes."""
        body = json.dumps({"key": "AA=="}).encode()
        request = urllib.request.Request(f"{self.etcd_url}/v3/kv/range", body)
        with urllib.request.urlopen(request, timeout=20) as answer:
            revision = json.load(answer)["header"]["revision"]
        body = json.dumps({"revision": revision, "physical": True}).encode()
        urllib.request.urlopen(urllib.request.Request(f"{self.etcd_url}/v3/kv/compaction", body), timeout=20).close()

    def _run(self, name: str, *words: str) -> None:
        with (self.folder / f"{name}.log").open("ab") as log:
            self._processes[name] = subprocess.Popen([name, *words], stdout=log, stderr=log)


@contextmanager
def running(folder: Path, certificates: Callable[..., None]) -> Iterator[RealKubernetes]:
    certificates(folder, "server")
    server = RealKubernetes(folder)
    try:
        server.start()
        yield server
    finally:
        server.stop()
