"""A server on loopback that speaks as much of the chat protocol as a test wants, well or badly."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Script = Callable[["Scripted", dict[str, Any], BaseHTTPRequestHandler], None]


@dataclass
class Scripted:
    """What it was asked, and where it listens."""

    base_url: str = ""
    requests: list[dict[str, Any]] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    paths: list[str] = field(default_factory=list)
    is_over: threading.Event = field(default_factory=threading.Event)


@contextmanager
def scripted(script: Script) -> Iterator[Scripted]:
    state = Scripted()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            state.requests.append(request)
            state.headers.append({name.lower(): value for name, value in self.headers.items()})
            state.paths.append(self.path)
            self.close_connection = True
            with suppress(BrokenPipeError, ConnectionResetError):  # the client has heard enough
                script(state, request, self)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    state.base_url = f"http://127.0.0.1:{server.server_port}/v1"
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield state
    finally:
        state.is_over.set()
        server.shutdown()
        server.server_close()
        thread.join()


def send(handler: BaseHTTPRequestHandler, body: bytes, status: int = 200, **headers: str) -> None:
    handler.send_response(status)
    for name, value in {"Content-Type": "application/json", **headers}.items():
        handler.send_header(name.replace("_", "-"), value)
    handler.send_header("Content-Length", str(len(body)))
    handler.end_headers()
    handler.wfile.write(body)


def completion(content: object, finish_reason: str = "stop") -> bytes:
    message = {"role": "assistant", "content": content}
    choice = {"index": 0, "message": message, "finish_reason": finish_reason}
    return json.dumps({"id": "1", "object": "chat.completion", "choices": [choice]}).encode()


def saying(content: object, finish_reason: str = "stop") -> Script:
    def script(_: Scripted, __: dict[str, Any], handler: BaseHTTPRequestHandler) -> None:
        send(handler, completion(content, finish_reason))

    return script


def failing(status: int, body: bytes = b'{"error": {"message": "no"}}', **headers: str) -> Script:
    def script(_: Scripted, __: dict[str, Any], handler: BaseHTTPRequestHandler) -> None:
        send(handler, body, status, **headers)

    return script
