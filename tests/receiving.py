"""A receiver of alerts on loopback: it keeps what it is sent, and answers as it is told to."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass(frozen=True)
class Request:
    path: str
    headers: dict[str, str]
    body: bytes

    @property
    def document(self) -> Any:
        return json.loads(self.body)


@dataclass
class Receiver:
    """Alerts of a webhook that it had before, by their key, it takes note of and leaves at that."""

    socket: socket.socket
    requests: list[Request] = field(default_factory=list)
    taken: list[str] = field(default_factory=list)  # keys, each once, in the order of their coming
    answer: tuple[int, dict[str, str], bytes] = (200, {}, b"ok")

    @property
    def port(self) -> int:
        return int(self.socket.getsockname()[1])

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def handle(self, request: Request) -> tuple[int, dict[str, str], bytes]:
        self.requests.append(request)
        key = request.headers.get("idempotency-key")
        if self.answer[0] == 200 and key is not None and key not in self.taken:
            self.taken.append(key)
        return self.answer

    @contextmanager
    def listening(self) -> Iterator[None]:
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
                headers = {name.lower(): value for name, value in self.headers.items()}
                status, own, said = receiver.handle(Request(self.path, headers, body))
                self.send_response(status)
                for name, value in own.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(said)))
                self.end_headers()
                self.wfile.write(said)

            def log_message(self, *_: Any) -> None:
                """It says nothing."""

        class Server(ThreadingHTTPServer):
            daemon_threads = True

            def server_bind(self) -> None:
                self.socket.close()
                self.socket = receiver.socket
                self.server_address = receiver.socket.getsockname()
                self.server_name, self.server_port = "127.0.0.1", receiver.port

            def server_close(self) -> None:
                """The socket outlives it: it goes on refusing."""

        server = Server(("127.0.0.1", 0), Handler)
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
        thread.start()
        try:
            yield
        finally:
            server.shutdown()
            thread.join()


@contextmanager
def receiver() -> Iterator[Receiver]:
    """Bound and not listening: whoever connects is refused."""
    with socket.socket() as own:
        own.bind(("127.0.0.1", 0))
        yield Receiver(own)


@contextmanager
def listening_receiver() -> Iterator[Receiver]:
    with receiver() as own, own.listening():
        yield own
