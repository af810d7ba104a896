"""A server that is held open, filled and starved, over real sockets: it lets go, and answers others."""

from __future__ import annotations

import json
import resource
import socket
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from urllib.parse import urlsplit

import pytest
from attack.serving import all_of, serving

from gpulake.core.config import Config
from gpulake.core.serve_settings import Serve
from gpulake.show.web.guard import Guard

PATIENT = 60.0  # seconds that a test waits for what should come at once
ASK = b"GET /api/v1 HTTP/1.1\r\nHost: localhost\r\n"
TOKENS = {"ann-has-this-token": "ann"}
LARGE = 64 << 20


@pytest.fixture
def config(shared_lake: Config) -> Config:
    return replace(shared_lake, serve=Serve())


@contextmanager
def opened(url: str) -> Iterator[socket.socket]:
    place = urlsplit(url)
    with socket.create_connection((str(place.hostname), int(place.port or 0)), timeout=PATIENT) as connection:
        yield connection


def status_of(url: str, **headers: str) -> int:
    try:
        with urllib.request.urlopen(
            urllib.request.Request(f"{url}/api/v1", headers=headers), timeout=PATIENT
        ) as result:
            return int(result.status)
    except urllib.error.HTTPError as error:
        return error.code


@pytest.mark.slow
@pytest.mark.parametrize(
    "begin",
    [
        b"",
        b"GET / HT",
        ASK,
        ASK + b"X-Slow: 1\r\n",
        b"POST /login HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\ntoken=",
        b"POST /api/v1/sql HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhel",
    ],
)
def test_a_request_that_does_not_arrive_is_not_waited_for(config: Config, begin: bytes) -> None:
    with serving(config, Guard(Serve(request_seconds=0.2))) as url, opened(url) as connection:
        connection.sendall(begin)
        answer = all_of(connection)
    assert answer == b"" or answer.startswith(b"HTTP/1.1 4")


@pytest.mark.slow
def test_a_byte_now_and_then_is_no_reason_to_wait_longer(config: Config) -> None:
    with serving(config, Guard(Serve(request_seconds=0.5))) as url, opened(url) as connection:
        connection.settimeout(0.05)
        connection.sendall(ASK)
        for _ in range(400):  # 20 s, were it for the server
            with suppress(TimeoutError):
                answer = connection.recv(1000)
                break
            connection.sendall(b"X: 1\r\n")
    assert answer.startswith(b"HTTP/1.1 408 Request Timeout")


@pytest.mark.slow
def test_half_a_request_behind_a_whole_one_is_not_waited_for(config: Config) -> None:
    with serving(config, Guard(Serve(request_seconds=0.3))) as url, opened(url) as connection:
        connection.sendall(ASK + b"\r\n")
        assert connection.recv(12) == b"HTTP/1.1 200"
        connection.sendall(ASK)
        assert b"HTTP/1.1 408 Request Timeout" in all_of(connection)


@pytest.mark.slow
def test_a_connection_that_asks_nothing_more_is_closed(config: Config) -> None:
    with serving(config, Guard(Serve(idle_seconds=0.2))) as url, opened(url) as connection:
        connection.sendall(ASK + b"\r\n")
        assert all_of(connection).startswith(b"HTTP/1.1 200 OK")


@pytest.mark.slow
def test_who_takes_nothing_of_an_answer_is_dropped(config: Config) -> None:
    with serving(config, Guard(Serve(idle_seconds=0.3))) as url, opened(url) as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        with suppress(ConnectionError):
            for _ in range(2_000):  # answers of some 690 kB each, and none is taken
                connection.sendall(b"GET /api/v1/openapi.json HTTP/1.1\r\nHost: localhost\r\n\r\n")
        with opened(url) as other:
            other.sendall(ASK + b"Connection: close\r\n\r\n")
            assert all_of(other).startswith(b"HTTP/1.1 200 OK")
        connection.settimeout(PATIENT)
        assert len(all_of(connection)) < 100 << 20


@pytest.mark.slow
def test_half_open_connections_leave_room_for_others(config: Config) -> None:
    """By address: whoever holds many keeps out themselves alone."""
    limits = Serve(most_connections=8, most_connections_per_address=4)
    with serving(config, Guard(limits)) as url, ExitStack() as stack:
        for _ in range(4):
            stack.enter_context(opened(url)).sendall(ASK)
        for _ in range(20):
            with opened(url) as refused:
                answer = all_of(refused)
                assert answer == b"" or answer.startswith(b"HTTP/1.1 503 Service Unavailable\r\n")
        place = urlsplit(url)
        with socket.create_connection(("127.0.0.1", int(place.port or 0)), PATIENT, ("127.0.0.2", 0)) as other:
            other.sendall(ASK + b"Connection: close\r\n\r\n")
            assert all_of(other).startswith(b"HTTP/1.1 200 OK")


@pytest.mark.slow
def test_there_are_only_so_many_connections_in_all_and_who_leaves_makes_room(config: Config) -> None:
    with serving(config, Guard(Serve(most_connections=2))) as url:
        with opened(url) as one, opened(url) as two:
            for connection in (one, two):
                connection.sendall(ASK)
            with opened(url) as refused:
                assert all_of(refused).startswith(b"HTTP/1.1 503 Service Unavailable\r\n")
        result = [status_of(url) for _ in range(50)]
        assert result[-1] == 200


@pytest.mark.slow
@pytest.mark.parametrize(
    "line", [b"GET /", b"GET / HTTP/1.1\r\nX: ", b"GET / HTTP/1.1\r\nHost: localhost\r\n" + b"X: 1\r\n" * 800]
)
def test_a_head_that_is_too_large_is_refused(config: Config, line: bytes) -> None:
    with serving(config, Guard(Serve(most_header_bytes=4096))) as url, opened(url) as connection:
        connection.sendall(line + b"x" * 5_000)
        assert all_of(connection).startswith(b"HTTP/1.1 431 Request Header Fields Too Large\r\n")
        assert status_of(url) == 200


def sent(url: str, path: str, chunked: bool, **headers: str) -> tuple[bytes, int]:
    """The answer to a large body, and how much of that body was taken."""
    lines = [f"POST {path} HTTP/1.1", "Host: localhost", *(f"{name}: {text}" for name, text in headers.items())]
    lines.append("Transfer-Encoding: chunked" if chunked else f"Content-Length: {LARGE}")
    block = b"x" * (1 << 16)
    piece = b"%x\r\n%s\r\n" % (len(block), block) if chunked else block
    taken = 0
    with opened(url) as connection:
        connection.sendall("\r\n".join([*lines, "", ""]).encode())
        with suppress(ConnectionError):
            while taken < LARGE:
                taken += connection.send(piece)
        return all_of(connection), taken


@pytest.mark.slow
@pytest.mark.parametrize("chunked", [False, True])
@pytest.mark.parametrize("path", ["/login", "/api/v1/sql", "/api/v1/incidents/x/mute", "/explore", "/nowhere"])
def test_a_large_body_is_neither_read_nor_kept(config: Config, path: str, chunked: bool) -> None:
    """Of nobody, of a viewer who may not act, and of an operator: all of them in the same few bytes."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with serving(config, Guard(Serve(), TOKENS)) as url:
        for token in ("", "Bearer ann-has-this-token"):
            selected = {"Content-Type": "application/json", **({"Authorization": token} if token else {})}
            answer, taken = sent(url, path, chunked, **selected)
            assert not answer or int(answer.split()[1]) in (401, 403, 404, 405, 413)
            assert taken < LARGE / 2
        assert status_of(url, Authorization="Bearer ann-has-this-token") == 200
    grown_kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert grown_kib < 48 << 10


@pytest.mark.slow
@pytest.mark.parametrize("length", ["262145", "600000000"])
def test_a_body_that_says_that_it_is_large_is_refused_before_it_comes(config: Config, length: str) -> None:
    kind = "Content-Type: application/json"
    head = f"POST /api/v1/sql HTTP/1.1\r\nHost: localhost\r\n{kind}\r\nContent-Length: {length}\r\n"
    with serving(config, Guard(Serve())) as url, opened(url) as connection:
        connection.sendall(f"{head}\r\n".encode())
        answer = all_of(connection)
    assert answer.startswith(b"HTTP/1.1 413 ")
    reported_body = {"error": "this request has more than 262144 bytes", "hint": "send less"}
    assert json.loads(answer.partition(b"\r\n\r\n")[2]) == reported_body
