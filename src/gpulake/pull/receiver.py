"""What senders push over HTTP: OpenTelemetry's metrics (OTLP) and Prometheus' remote write.

A request is answered once its rows are on the disk. One that cannot be taken now is refused in the way that lets its
sender try again; one that can never be taken, in the way that makes it give up.
"""

from __future__ import annotations

import gzip
import hashlib
import hmac
import io
import threading
import time
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from ipaddress import ip_address

from gpulake.core.errors import UsageError
from gpulake.formats.messages import Message
from gpulake.formats.messages.remote_write import unpacked

TOKEN = "GPULAKE_RECEIVER_TOKEN"  # noqa: S105 - the name of the variable
PATHS = {"/v1/metrics": "otlp", "/api/v1/write": "remote_write"}
MOST_BYTES = 32 << 20  # of a request, also unpacked
MOST_WAITING_BYTES = 64 << 20  # of all that wait: then senders are asked to wait
LAND_SECONDS = 25.0  # Prometheus gives up after 30
IDLE_SECONDS = 60.0


@dataclass(eq=False)
class Request:
    kind: str
    message: Message
    sha256: str
    status: int = 503  # until it has landed
    done: threading.Event = field(default_factory=threading.Event)

    def answer(self, status: int) -> None:
        self.status = status
        self.done.set()


class Receiver(ThreadingHTTPServer):
    """Requests wait in `waiting` for the one that lands them."""

    daemon_threads = True
    request_queue_size = 128

    def __init__(self, host: str, port: int, environment: Mapping[str, str]) -> None:
        self.token = environment.get(TOKEN, "")
        if not self.token and not _is_loopback(host):
            raise UsageError(
                f"{host} can be reached from other hosts, and there is no token", f"set {TOKEN}, or listen on 127.0.0.1"
            )
        self._lock = threading.Lock()
        self._waiting: list[Request] = []
        self._waiting_bytes = 0
        super().__init__((host, port), _Handler)

    @property
    def address(self) -> str:
        return f"{self.server_address[0]!s}:{self.server_address[1]}"

    def put(self, request: Request) -> bool:
        with self._lock:
            if self._waiting_bytes + len(request.message.value) > MOST_WAITING_BYTES:
                return False
            self._waiting.append(request)
            self._waiting_bytes += len(request.message.value)
        return True

    def take(self) -> list[Request]:
        with self._lock:
            taken, self._waiting, self._waiting_bytes = self._waiting, [], 0
        return taken


class _Handler(BaseHTTPRequestHandler):
    server: Receiver
    protocol_version = "HTTP/1.1"
    server_version, sys_version = "gpulake", ""
    timeout = IDLE_SECONDS

    def do_POST(self) -> None:
        status, words = self._receive()
        if status >= 400:
            self.close_connection = True  # what was not read of the request would be taken for the next one
        body = words.encode()
        self.send_response(status)
        if status == 200:
            is_json = "json" in self.headers.get("Content-Type", "")
            self.send_header("Content-Type", "application/json" if is_json else "application/x-protobuf")
            body = b"{}" if is_json else b""
        if status in (429, 503):
            self.send_header("Retry-After", "1")
        if status != 204:
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body if status != 204 else b"")

    def _receive(self) -> tuple[int, str]:
        kind = PATHS.get(self.path.partition("?")[0], "")
        if refusal := self._refusal(kind):
            return refusal
        try:
            size = int(self.headers["Content-Length"])
            body = _decoded(self.rfile.read(size), self.headers.get("Content-Encoding", ""), kind)
        except (ValueError, OSError, EOFError, zlib.error, IndexError) as error:
            return 400, f"{error}\n"
        message = Message(body, int(time.time() * 1000))
        request = Request(kind, message, hashlib.sha256(body).hexdigest())
        if not self.server.put(request) or not request.done.wait(LAND_SECONDS):
            return 503, "try again\n"
        return (request.status if request.status != 200 or kind == "otlp" else 204), ""

    def _refusal(self, kind: str) -> tuple[int, str] | None:
        """By the head of the request alone."""
        given = self.headers.get("Authorization", "")
        if self.server.token and not hmac.compare_digest(given.encode(), f"Bearer {self.server.token}".encode()):
            return 401, "the token is missing or wrong\n"
        if "Origin" in self.headers:
            return 403, "pages of a browser may not send samples\n"  # any page could post to this address
        if not kind:
            return 404, f"post to {' or '.join(PATHS)}\n"
        if "write.v2" in self.headers.get("Content-Type", ""):
            return 415, "remote write 1 is expected: protobuf_message prometheus.WriteRequest\n"
        size = self.headers.get("Content-Length", "")
        if not size.isdigit():
            return 411, "no Content-Length\n"
        return (413, f"more than {MOST_BYTES} bytes\n") if int(size) > MOST_BYTES else None

    def log_message(self, format: str, *words: object) -> None:  # noqa: A002 - the signature of the library
        """Nothing: who sends what, and how often, is in the table `landings`."""


def _decoded(body: bytes, encoding: str, kind: str) -> bytes:
    if kind == "remote_write":
        unpacked(body)  # what is not packed with Snappy is refused at once
        return body
    if encoding == "gzip":
        with gzip.GzipFile(fileobj=io.BytesIO(body)) as file:
            body = file.read(MOST_BYTES + 1)
        if len(body) > MOST_BYTES:
            raise ValueError(f"more than {MOST_BYTES} bytes, unpacked")
    elif encoding not in ("", "identity"):
        raise ValueError(f"Content-Encoding is {encoding!r}")
    return body


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
