"""The HTTP server: /metrics, /healthz and a page with links to them, for few clients and short connections."""

from __future__ import annotations

import gzip
import io
import ipaddress
import socket
import threading
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from gpulake.collect.live.access import Access, Rules, TooManyError
from gpulake.collect.live.encoding import OPENMETRICS, exposition, negotiate
from gpulake.collect.live.metrics import MOST_PROCESS_SERIES, families
from gpulake.collect.live.state import State
from gpulake.collect.live.web_config import is_allowed
from gpulake.core.addresses import is_address
from gpulake.core.clock import Clock, SystemClock
from gpulake.core.errors import UsageError
from gpulake.formats.names import Table, table
from gpulake.formats.prometheus import TEXT

LOOPBACK = "127.0.0.1"
MOST_CONNECTIONS = 16
MOST_CONNECTIONS_PER_ADDRESS = 8
MOST_HEAD_BYTES = 16 << 10  # request line and headers together
CONNECTION_SECONDS = 10.0  # of a whole connection
POLL_SECONDS = 0.2  # how often deadlines and the end are checked
GZIP_LEVEL = 1

ROOT = b"""<!doctype html><title>gpulake</title><h1>gpulake collect</h1>
<ul><li><a href="/metrics">metrics</a><li><a href="/healthz">health</a></ul>
"""


def serve(
    state: State,
    listen: str,
    web_config: Path | None = None,
    *,
    names: str = "dcgm",
    most_processes: int = MOST_PROCESS_SERIES,
    say: Callable[[str], None] = lambda _: None,
    clock: Clock | None = None,
    connection_seconds: float = CONNECTION_SECONDS,
    allowed_hosts: Collection[str] = (),
) -> Server:
    """Serves the state at HOST:PORT in a thread, until it is closed. `say` gets each message once."""
    host, port = parse_listen(listen)
    access = Access(web_config, clock or SystemClock(), say)
    hosts = frozenset(name.lower() for name in ("localhost", socket.gethostname(), host, *allowed_hosts))
    page = _Page(state, table(names), most_processes, access, connection_seconds, hosts)
    try:
        family, *_, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
        server = Server(family, address, page)
    except OSError as error:
        raise UsageError(
            f"cannot listen at {host}:{port}: {error.strerror or error}", "choose another address or port"
        ) from error
    rules = access.rules()
    if not ipaddress.ip_address(server.address[0].partition("%")[0]).is_loopback and rules is not None:
        is_safe = rules.context is not None and rules.needs_credentials
        more = "" if is_safe else " without TLS and a password: give --web-config-file"
        say(f"{listen} can be reached from other hosts{more}")
    server.thread.start()
    return server


def parse_listen(listen: str) -> tuple[str, int]:
    """HOST:PORT, [IPv6]:PORT, or :PORT for loopback; all interfaces are 0.0.0.0:PORT or [::]:PORT."""
    host, colon, port = listen.rpartition(":")
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    elif ":" in host:
        raise UsageError(f"{listen!r} is no address to listen at", "put an IPv6 address in brackets: [::1]:9400")
    if not colon or not port.isascii() or not port.isdecimal() or int(port) > 65535:
        raise UsageError(f"{listen!r} is no address to listen at", "use HOST:PORT, such as 127.0.0.1:9841")
    return host or LOOPBACK, int(port)


@dataclass(frozen=True)
class _Page:
    """Shared by all connections."""

    state: State
    names: Table
    most_processes: int
    access: Access
    connection_seconds: float
    hosts: frozenset[str]

    def is_host(self, header: str) -> bool:
        """Whether the header names this host: prevents DNS rebinding through a browser."""
        try:
            host = (urlsplit(f"//{header}").hostname or "").rstrip(".")
        except ValueError:
            return False
        return host in self.hosts or is_address(host)

    def text(self, *, is_openmetrics: bool) -> str:
        snapshot = self.state.snapshot()
        found = [] if snapshot is None else families(snapshot, self.names, most_processes=self.most_processes)
        return exposition(found, is_openmetrics=is_openmetrics)


class Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    request_queue_size = MOST_CONNECTIONS

    def __init__(self, family: int, address: Any, page: _Page) -> None:
        self.address_family = family
        self.page = page
        self.refused = 0
        self._by_address: Counter[str] = Counter()
        self._counting = threading.Lock()
        self._deadlines: dict[socket.socket, float] = {}
        super().__init__(address, BaseHTTPRequestHandler)  # _Handler is built by finish_request, with its rules
        self.thread = threading.Thread(
            target=self.serve_forever, name="gpulake-page", daemon=True, kwargs={"poll_interval": POLL_SECONDS}
        )

    @property
    def address(self) -> tuple[str, int]:
        host, port, *_ = self.server_address
        return str(host), int(port)

    def close(self) -> None:
        self.shutdown()
        self.server_close()
        self.thread.join()

    def process_request(self, request: Any, client_address: Any) -> None:
        address = client_address[0]
        if not self._enter(address):
            self.refused += 1
            self.shutdown_request(request)
            return
        try:
            super().process_request(request, client_address)
        except RuntimeError:  # no more threads: free the slot
            self._leave(address)
            raise

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._leave(client_address[0])

    def _enter(self, address: str) -> bool:
        with self._counting:
            is_full = self._by_address[address] >= MOST_CONNECTIONS_PER_ADDRESS
            if is_full or self._by_address.total() >= MOST_CONNECTIONS:
                return False
            self._by_address[address] += 1
            return True

    def _leave(self, address: str) -> None:
        with self._counting:
            self._by_address[address] -= 1
            if not self._by_address[address]:
                del self._by_address[address]

    def finish_request(self, request: Any, client_address: Any) -> None:
        """Runs in the thread of the connection, so that a slow handshake blocks nobody else."""
        rules = self.page.access.rules()
        if rules is None:
            return
        request.settimeout(self.page.connection_seconds)
        deadline = time.monotonic() + self.page.connection_seconds
        if rules.context is None or rules.config.tls is None:
            with self._timed(request, deadline):
                _Handler(request, client_address, self, rules)
            return
        secure = rules.context.wrap_socket(request, server_side=True, do_handshake_on_connect=False)
        with secure, self._timed(secure, deadline):
            secure.do_handshake()
            if is_allowed(secure, rules.config.tls):
                _Handler(secure, client_address, self, rules)

    def service_actions(self) -> None:
        """Closes connections after their deadline: a client that sends single bytes never hits a read timeout."""
        now = time.monotonic()
        for connection, deadline in list(self._deadlines.items()):
            if now > deadline:
                with suppress(OSError):
                    socket.socket.shutdown(connection, socket.SHUT_RDWR)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Disconnects and failed handshakes are not logged."""

    @contextmanager
    def _timed(self, connection: socket.socket, deadline: float) -> Iterator[None]:
        self._deadlines[connection] = deadline
        try:
            yield
        finally:
            del self._deadlines[connection]


class _Head(io.BufferedIOBase):
    """Limits the size of the whole request head, not only of a line."""

    def __init__(self, stream: io.BufferedIOBase) -> None:
        self._stream = stream
        self._left = MOST_HEAD_BYTES

    def readline(self, size: int | None = -1, /) -> bytes:
        most = self._left + 1
        line = self._stream.readline(most if size is None or size < 0 else min(most, size))
        self._left -= len(line)
        # http.server rejects a line above its limit.
        return line if self._left >= 0 else b"x" * (size or 0)

    def close(self) -> None:
        self._stream.close()
        super().close()


class _Handler(BaseHTTPRequestHandler):
    server: Server
    protocol_version = "HTTP/1.1"
    server_version = "gpulake"
    sys_version = ""

    def __init__(self, request: socket.socket, client_address: Any, server: Server, rules: Rules) -> None:
        self.rules = rules
        super().__init__(request, client_address, server)

    def setup(self) -> None:
        super().setup()
        self.rfile = _Head(self.rfile)

    def parse_request(self) -> bool:
        if not super().parse_request():
            return False
        self.close_connection = True
        host = self.headers.get("Host", "")
        # With passwords DNS rebinding is harmless: a browser has no password for the name of another site.
        if host and not self.rules.needs_credentials and not self.server.page.is_host(host):
            self._answer(HTTPStatus.MISDIRECTED_REQUEST, b"not a name of this host: give --allowed-host\n")
            return False
        if self.command not in ("GET", "HEAD"):
            self._answer(HTTPStatus.METHOD_NOT_ALLOWED, b"only GET and HEAD\n", Allow="GET, HEAD")
            return False
        return self._is_permitted()

    def do_GET(self) -> None:
        path = self.path.partition("?")[0]
        if path == "/metrics":
            self._metrics()
        elif path == "/healthz":
            is_fresh = self.server.page.state.is_fresh()
            status = HTTPStatus.OK if is_fresh else HTTPStatus.SERVICE_UNAVAILABLE
            self._answer(status, b"ok\n" if is_fresh else b"the last tick is too old\n")
        elif path == "/":
            self._answer(HTTPStatus.OK, ROOT, "text/html; charset=utf-8")
        else:
            self._answer(HTTPStatus.NOT_FOUND, b"not found\n")

    do_HEAD = do_GET  # noqa: N815 - http.server's name

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:  # noqa: ARG002
        """Errors of http.server in our form; its default repeats what the client sent."""
        self.request_version = self.protocol_version
        self.close_connection = True
        status = HTTPStatus(code)
        self._answer(status, f"{status.phrase.lower()}\n".encode())

    def _metrics(self) -> None:
        is_openmetrics = negotiate(self.headers.get("Accept", ""))
        body = self.server.page.text(is_openmetrics=is_openmetrics).encode()
        kind = OPENMETRICS if is_openmetrics else TEXT
        more = {"Vary": "Accept, Accept-Encoding"}
        if _takes_gzip(self.headers.get("Accept-Encoding", "")):
            body = gzip.compress(body, GZIP_LEVEL, mtime=0)
            more["Content-Encoding"] = "gzip"
        self._answer(HTTPStatus.OK, body, kind, **more)

    def _is_permitted(self) -> bool:
        try:
            if self.rules.permits(self.path.partition("?")[0], self.headers.get("Authorization", "")):
                return True
        except TooManyError:
            self._answer(HTTPStatus.TOO_MANY_REQUESTS, b"too many passwords were tried\n", **{"Retry-After": "1"})
            return False
        challenge = {"WWW-Authenticate": 'Basic realm="gpulake", charset="UTF-8"'}
        self._answer(HTTPStatus.UNAUTHORIZED, b"unauthorized\n", **challenge)
        return False

    def _answer(self, status: HTTPStatus, body: bytes, kind: str = "text/plain; charset=utf-8", **more: str) -> None:
        headers = {"Content-Type": kind, "Content-Length": str(len(body)), "Connection": "close"}
        self.send_response(status)
        for name, value in (headers | more | dict(self.rules.config.headers)).items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        """Requests are not logged: they contain untrusted text."""


def _takes_gzip(accept: str) -> bool:
    for part in accept.split(","):
        coding, _, quality = part.strip().lower().partition(";")
        if coding.strip() in ("gzip", "*") and quality.replace(" ", "") not in ("q=0", "q=0.0", "q=0.00", "q=0.000"):
            return True
    return False
