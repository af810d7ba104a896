"""An API server of Kubernetes on loopback: lists in pages whose tokens expire, and statuses as they are scripted."""

from __future__ import annotations

import json
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

Object = dict[str, Any]
KINDS = {"pods": "Pod", "nodes": "Node", "events": "Event", "jobs": "Job", "pytorchjobs": "PyTorchJob"}
VERBS = ["get", "list"]


@dataclass
class ApiServer:
    objects: dict[str, list[Object]]  # by the path of their list
    token: str = "secret"  # empty: none is needed
    groups: dict[str, str] = field(default_factory=lambda: {"batch": "batch/v1", "kubeflow.org": "kubeflow.org/v1"})
    forbidden: set[str] = field(default_factory=set)  # paths
    scripted: list[int] = field(default_factory=list)  # statuses of the next answers that are lists
    expiring: int = 0  # so many tokens of pages are refused
    requests: list[str] = field(default_factory=list)
    tls: ssl.SSLContext | None = None
    url: str = ""

    def answer(self, target: str, token: str) -> tuple[int, Object]:
        parts = urlsplit(target)
        self.requests.append(target)
        if self.token and token != f"Bearer {self.token}":
            return _status(401, "Unauthorized")
        if found := self._discovery(parts.path):
            return 200, found
        if parts.path in self.forbidden:
            return _status(403, "Forbidden")
        if parts.path not in self.objects:
            return _status(404, "NotFound")
        if self.scripted and (status := self.scripted.pop(0)) != 200:
            return _status(status, "Scripted")
        return self._page(parts.path, {key: value[0] for key, value in parse_qs(parts.query).items()})

    def _page(self, path: str, asked: dict[str, str]) -> tuple[int, Object]:
        begin = int(asked.get("continue", "0"))
        if begin and self.expiring:
            self.expiring -= 1
            return _status(410, "Expired")
        items = self.objects[path]
        end = min(begin + (int(asked.get("limit", "0")) or len(items)), len(items))
        # Items of a list have no kind of their own.
        page = [
            {key: value for key, value in item.items() if key not in ("kind", "apiVersion")}
            for item in items[begin:end]
        ]
        metadata = {"resourceVersion": "7"} | ({"continue": str(end)} if end < len(items) else {})
        kind = KINDS[path.rsplit("/", 1)[1]]
        return 200, {"kind": f"{kind}List", "apiVersion": _version(path), "metadata": metadata, "items": page}

    def _discovery(self, path: str) -> Object | None:
        """What kubectl asks for before it lists, and the versions of a group."""
        entries = [_group(name, version) for name, version in self.groups.items()]
        if path == "/apis":
            return {"kind": "APIGroupList", "apiVersion": "v1", "groups": entries}
        if path == "/api":
            return {"kind": "APIVersions", "versions": ["v1"]}
        for entry in entries:
            if path == f"/apis/{entry['name']}":
                return entry
        if path == "/api/v1" or path.removeprefix("/apis/") in self.groups.values():
            lists = [one for one in self.objects if one.startswith(f"{path}/")]
            return {
                "kind": "APIResourceList",
                "groupVersion": path.split("/", 2)[2],
                "resources": [*map(_resource, lists)],
            }
        return None

    @contextmanager
    def listening(self) -> Iterator[ApiServer]:
        server = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:  # nothing else is answered
                status, document = server.answer(self.path, self.headers.get("Authorization", ""))
                body = json.dumps(document).encode()
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def date_time_string(self, _: float | None = None) -> str:
                """The clock of the server is not ours."""
                return "Fri, 01 May 2026 12:00:00 GMT"

            def log_message(self, *_: object) -> None:
                pass

        with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as listener:
            if self.tls:
                listener.socket = self.tls.wrap_socket(listener.socket, server_side=True)
            thread = threading.Thread(target=listener.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
            thread.start()
            host = "https://localhost" if self.tls else "http://127.0.0.1"
            self.url = f"{host}:{listener.server_port}"
            try:
                yield self
            finally:
                listener.shutdown()
                thread.join()


def _version(path: str) -> str:
    return "v1" if path.startswith("/api/v1/") else "/".join(path.split("/")[2:4])


def _group(name: str, version: str) -> Object:
    entry = {"groupVersion": version, "version": version.split("/")[1]}
    return {"kind": "APIGroup", "apiVersion": "v1", "name": name, "versions": [entry], "preferredVersion": entry}


def _resource(path: str) -> Object:
    name = path.rsplit("/", 1)[1]
    kind = KINDS[name]
    return {"name": name, "singularName": kind.lower(), "namespaced": kind != "Node", "kind": kind, "verbs": VERBS}


def _status(code: int, reason: str) -> tuple[int, Object]:
    return code, {"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": reason, "code": code}
