"""A schema registry on loopback, with the part of Confluent's HTTP API that consumers and producers use."""

from __future__ import annotations

import base64
import json
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from io import BytesIO
from typing import Any
from urllib.parse import unquote

import fastavro

AVRO = {
    "type": "record",
    "name": "Sample",
    "namespace": "gpus",
    "fields": [
        {"name": "timestamp", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "Hostname", "type": "string"},
        {"name": "gpu", "type": "int"},
        {"name": "DCGM_FI_DEV_GPU_UTIL", "type": ["null", "double"]},
    ],
}
PROTO = """
syntax = "proto3";
package gpus;
message Unused { string note = 1; }
message Sample {
  int64 timestamp = 1;
  string Hostname = 2;
  uint32 gpu = 3;
  double DCGM_FI_DEV_GPU_UTIL = 4;
}
"""


@dataclass
class Registry:
    user: str = ""
    password: str = ""
    is_down: bool = False
    url: str = ""
    schemas: list[dict[str, Any]] = field(default_factory=list)
    asked: list[str] = field(default_factory=list)

    def register(self, subject: str, schema: str, kind: str = "AVRO", references: Sequence[str] = ()) -> int:
        document: dict[str, Any] = {"schema": schema, "subject": subject, "version": 1, "id": len(self.schemas) + 1}
        if kind != "AVRO":  # as registries do
            document["schemaType"] = kind
        if references:
            document["references"] = [{"name": one, "subject": one, "version": 1} for one in references]
        self.schemas.append(document)
        return len(self.schemas)

    def answer(self, path: str, authorization: str) -> tuple[int, dict[str, Any]]:
        self.asked.append(path)
        if self.is_down:
            return 503, {"error_code": 50003, "message": "no leader"}
        if self.user:
            wanted = base64.b64encode(f"{self.user}:{self.password}".encode()).decode()
            if authorization != f"Basic {wanted}":
                return 401, {"error_code": 401, "message": "Unauthorized"}
        match [unquote(word) for word in path.strip("/").split("/")]:
            case ["schemas", "ids", number]:
                found = [one for one in self.schemas if one["id"] == int(number)]
                missing = {"error_code": 40403, "message": f"Schema {number} not found"}
            case ["subjects", subject, "versions", version]:
                found = [one for one in self.schemas if (one["subject"], one["version"]) == (subject, int(version))]
                missing = {"error_code": 40401, "message": f"Subject '{subject}' not found."}
            case _:
                found, missing = [], {"error_code": 404, "message": "HTTP 404 Not Found"}
        return (200, found[0]) if found else (404, missing)


@contextmanager
def schema_registry(user: str = "", password: str = "") -> Iterator[Registry]:
    registry = Registry(user, password)

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            status, document = registry.answer(self.path, self.headers.get("Authorization", ""))
            body = json.dumps(document).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/vnd.schemaregistry.v1+json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    registry.url = f"http://127.0.0.1:{server.server_port}"
    serving = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    serving.start()
    try:
        yield registry
    finally:
        server.shutdown()
        serving.join()
        server.server_close()


def framed(number: int, body: bytes) -> bytes:
    return b"\0" + number.to_bytes(4) + body


def avro(number: int, schema: dict[str, Any], row: dict[str, Any]) -> bytes:
    found = BytesIO()
    fastavro.schemaless_writer(found, fastavro.parse_schema(schema), row)
    return framed(number, found.getvalue())
