"""A server on loopback that answers as Prometheus does, and misbehaves as it is told to."""

from __future__ import annotations

import json
import ssl
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import format_datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import MappingProxyType
from typing import Any
from urllib.parse import parse_qs

Handler = BaseHTTPRequestHandler
# What the handler of a query does in place of answering.
Fault = Callable[["Scripted", Handler, dict[str, str]], None]


def refuse(status: int, error: str = "", words: str = "", headers: dict[str, str] | None = None) -> Fault:
    def fault(server: Scripted, handler: Handler, form: dict[str, str]) -> None:  # noqa: ARG001 - of the others
        document = {"status": "error", "errorType": error, "error": words} if error else {}
        server.send(handler, json.dumps(document).encode(), status, headers=headers or {})

    return fault


def half(server: Scripted, handler: Handler, form: dict[str, str]) -> None:
    """The connection ends in the middle of the answer."""
    body = json.dumps(server.answer(handler.path, form)).encode()
    server.send(handler, body, is_half=True)


def limit_of(steps: int, error: str, words: str, status: int = 422) -> Callable[[str, dict[str, str]], Fault | None]:
    """Refuses windows of more steps."""

    def judge(path: str, form: dict[str, str]) -> Fault | None:
        if not path.endswith("query_range"):
            return None
        asked = (int(form["end"]) - int(form["start"])) // int(form["step"]) + 1
        return refuse(status, error, words) if asked > steps else None

    return judge


@dataclass
class Scripted:
    """Series by their labels, each a function of the time in seconds; None: it has no value then."""

    series: list[tuple[dict[str, str], Callable[[int], str | None]]] = field(default_factory=list)
    now: datetime = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)  # as the frozen clock of the tests
    faults: list[Fault] = field(default_factory=list)  # of the next queries of ranges, one each
    judge: Callable[[str, dict[str, str]], Fault | None] = lambda *_: None
    asked: list[dict[str, str]] = field(default_factory=list)  # the queries of ranges
    headers: list[dict[str, str]] = field(default_factory=list)
    url: str = ""

    def handle(self, handler: Handler) -> None:
        length = int(handler.headers.get("Content-Length", 0))
        form = {name: values[0] for name, values in parse_qs(handler.rfile.read(length).decode()).items()}
        self.headers.append({name.lower(): value for name, value in handler.headers.items()})
        fault = self.judge(handler.path, form)
        if handler.path.endswith("/query_range"):
            self.asked.append(form)
            fault = fault or (self.faults.pop(0) if self.faults else None)
        if fault:
            fault(self, handler, form)
        else:
            self.send(handler, json.dumps(self.answer(handler.path, form)).encode())

    def answer(self, path: str, form: dict[str, str]) -> dict[str, Any]:
        result: list[dict[str, Any]] = []
        if path.endswith("/query_range"):
            times = range(int(form["start"]), int(form["end"]) + 1, int(form["step"]))
            for labels, value in self.series:
                values = [[at, found] for at in times if (found := value(at)) is not None]
                result += [{"metric": labels, "values": values}] if values else []
        elif form["query"] == "time()":
            return {"status": "success", "data": {"resultType": "scalar", "result": [0, "0"]}}
        elif count := sum(value(int(form["time"])) is not None for _, value in self.series):
            result = [{"metric": {}, "value": [0, str(count)]}]
        return {"status": "success", "data": {"resultType": "matrix", "result": result}}

    def send(
        self,
        handler: Handler,
        body: bytes,
        status: int = 200,
        is_half: bool = False,
        headers: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        handler.send_response_only(status)
        handler.send_header("Date", format_datetime(self.now, usegmt=True))
        for name, value in headers.items():
            handler.send_header(name, value)
        handler.send_header("Content-Length", str(len(body)))
        handler.end_headers()
        handler.wfile.write(body[: len(body) // 2] if is_half else body)


@contextmanager
def scripted(server: Scripted, context: ssl.SSLContext | None = None) -> Iterator[Scripted]:
    class Answering(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            server.handle(self)

        def log_message(self, *_: Any) -> None:
            """It says nothing."""

    class Quiet(ThreadingHTTPServer):
        block_on_close = False

        def handle_error(self, *_: Any) -> None:
            """A client that does not trust the certificate hangs up."""

    with Quiet(("127.0.0.1", 0), Answering) as own:
        if context:
            own.socket = context.wrap_socket(own.socket, server_side=True)
        server.url = f"{'https' if context else 'http'}://localhost:{own.server_port}"
        thread = threading.Thread(target=own.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
        thread.start()
        try:
            yield server
        finally:
            own.shutdown()
            thread.join()
