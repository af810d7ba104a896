"""The page over the wire: what it answers, to whom, and what a client cannot make it do."""

from __future__ import annotations

import gzip
import socket
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics

from gpulake.collect.live.encoding import OPENMETRICS
from gpulake.collect.live.page import MOST_CONNECTIONS, MOST_CONNECTIONS_PER_ADDRESS, Server, parse_listen
from gpulake.collect.live.state import State
from gpulake.core.errors import UsageError
from gpulake.formats.prometheus import TEXT
from live_rows import clock, state
from live_server import SECRET, ask, basic, certificates, send, start

__all__ = ["certificates", "start"]  # fixtures


def test_the_page_is_text_unless_openmetrics_is_asked_for(start: Callable[..., Server]) -> None:
    server = start()
    status, headers, plain = ask(server)
    _, other, open_metrics = ask(server, Accept="application/openmetrics-text;version=1.0.0")

    assert (status, headers["content-type"], headers["connection"]) == (200, TEXT, "close")
    assert other["content-type"] == OPENMETRICS
    assert b"\ngpulake_collect_up 1\n" in plain
    assert list(parse_openmetrics(open_metrics.decode()))  # type: ignore[no-untyped-call]


def test_the_page_is_packed_for_those_who_can_unpack_it(start: Callable[..., Server]) -> None:
    server = start()
    _, headers, packed = ask(server, Accept_Encoding="gzip")
    _, plain_headers, plain = ask(server, Accept_Encoding="gzip;q=0")

    assert headers["content-encoding"] == "gzip"
    assert "content-encoding" not in plain_headers
    assert gzip.decompress(packed) == plain


def test_a_head_request_gets_the_headers_and_no_body(start: Callable[..., Server]) -> None:
    server = start()
    length = len(ask(server)[2])
    status, headers, body = ask(server, method="HEAD")

    assert (status, headers["content-length"], body) == (200, str(length), b"")


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS", "BREW"])
def test_other_methods_are_not_allowed(start: Callable[..., Server], method: str) -> None:
    status, headers, _ = ask(start(), method=method)

    assert (status, headers["allow"]) == (405, "GET, HEAD")


def test_the_root_points_to_the_page_and_nothing_else_is_there(start: Callable[..., Server]) -> None:
    server = start()

    assert b'href="/metrics"' in ask(server, "/")[2]
    assert ask(server, "/metrics/../etc/passwd")[0] == 404


def test_health_is_lost_when_the_last_tick_is_old(start: Callable[..., Server]) -> None:
    at = clock()
    server = start(state(at=at))
    healthy = ask(server, "/healthz")[0]
    at.elapsed_seconds += 10

    assert (healthy, ask(server, "/healthz")[0]) == (200, 503)


def test_before_the_first_tick_the_page_is_empty_and_not_healthy(start: Callable[..., Server]) -> None:
    server = start(State())

    assert ask(server)[0] == 200
    assert ask(server, "/healthz")[0] == 503


@pytest.mark.parametrize(
    ("request_bytes", "status"),
    [
        (b"GET /" + b"a" * 20_000 + b" HTTP/1.1\r\n\r\n", b"414"),
        (b"GET / HTTP/1.1\r\nX: " + b"a" * 20_000 + b"\r\n\r\n", b"431"),
        (b"GET / HTTP/1.1\r\n" + b"X: y\r\n" * 150 + b"\r\n", b"431"),
        (b"GET / HTTP/9.9\r\n\r\n", b"505"),
        (b"\x16\x03\x01 hello\r\n\r\n", b"400"),
    ],
)
def test_a_head_that_is_too_long_or_makes_no_sense_is_refused(
    start: Callable[..., Server], request_bytes: bytes, status: bytes
) -> None:
    assert send(start(), request_bytes).split(b" ")[1] == status


def test_a_client_that_says_nothing_is_hung_up_on_and_others_are_served(start: Callable[..., Server]) -> None:
    server = start(connection_seconds=0.2)
    with socket.create_connection(server.address, timeout=60) as silent:
        silent.sendall(b"GET /met")

        assert ask(server, "/healthz")[0] == 200
        assert silent.recv(1) == b""


def test_a_client_that_sends_a_byte_now_and_then_is_hung_up_on_too(start: Callable[..., Server]) -> None:
    server = start(connection_seconds=0.5)
    is_over = threading.Event()

    def drip(connection: socket.socket) -> None:
        while not is_over.wait(0.05):
            try:
                connection.sendall(b"x")
            except OSError:
                return

    with socket.create_connection(server.address, timeout=60) as slow:
        thread = threading.Thread(target=drip, args=(slow,))
        thread.start()
        try:
            try:
                answer = slow.recv(1)
            except ConnectionError:
                answer = b""  # a reset is an end, too
            assert answer == b""
        finally:
            is_over.set()
            thread.join()


def test_only_so_many_are_served_at_once(start: Callable[..., Server]) -> None:
    server = start(connection_seconds=30)
    held = [socket.create_connection(server.address, timeout=60) for _ in range(MOST_CONNECTIONS)]
    try:
        deadline = time.monotonic() + 60
        while server.refused == 0 and time.monotonic() < deadline:
            with socket.create_connection(server.address, timeout=60) as more:
                more.settimeout(0.05)
                try:
                    more.recv(1)
                except TimeoutError:
                    continue
        assert server.refused > 0
    finally:
        for connection in held:
            connection.close()


def test_a_host_that_is_out_of_threads_serves_again_once_it_has_some(
    start: Callable[..., Server], monkeypatch: pytest.MonkeyPatch
) -> None:
    server = start(state())

    def refuse(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", refuse)
        for _ in range(MOST_CONNECTIONS):
            with socket.create_connection(server.address, timeout=60) as connection:
                assert connection.recv(1) == b""  # hung up on
    assert (ask(server)[0], server.refused) == (200, 0)


def test_requests_leave_no_trace_on_the_terminal(
    start: Callable[..., Server], capfd: pytest.CaptureFixture[str]
) -> None:
    server = start()
    ask(server, "/\x1b[31m".replace("\x1b", "%1b"))
    send(server, b"GET /\x1b[31m HTTP/1.1\r\n\r\n")

    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize(
    ("listen", "found"),
    [("127.0.0.1:9841", ("127.0.0.1", 9841)), (":0", ("127.0.0.1", 0)), ("[::1]:80", ("::1", 80)), ("n1:1", ("n1", 1))],
)
def test_addresses_to_listen_at(listen: str, found: tuple[str, int]) -> None:
    assert parse_listen(listen) == found


@pytest.mark.parametrize("listen", ["", "9841", "host", "::1:80", "host:", "host:-1", "host:70000", "host:８０"])
def test_what_is_no_address_is_the_users_error(listen: str) -> None:
    with pytest.raises(UsageError):
        parse_listen(listen)


def test_a_port_that_is_taken_is_the_users_error(start: Callable[..., Server]) -> None:
    host, port = start().address
    with pytest.raises(UsageError) as caught:
        start(None, f"{host}:{port}")

    assert caught.value.message == f"cannot listen at {host}:{port}: Address already in use"


def test_a_page_that_others_can_reach_without_a_password_is_warned_of_once(start: Callable[..., Server]) -> None:
    said: list[str] = []
    server = start(None, "0.0.0.0:0", say=said.append)
    ask(server)

    assert said == ["0.0.0.0:0 can be reached from other hosts without TLS and a password: give --web-config-file"]


def test_a_page_open_to_other_hosts_causes_a_warning(
    start: Callable[..., Server], tmp_path: Path, certificates: Callable[..., None]
) -> None:
    certificates(tmp_path, "server")
    web = tmp_path / "web.yml"
    tls = "tls_server_config: {cert_file: server.pem, key_file: server.key}"
    web.write_text(f"{tls}\nbasic_auth_users: {{prometheus: {SECRET}}}\n")
    said: list[str] = []
    start(None, "0.0.0.0:0", web, say=said.append)

    assert said == ["0.0.0.0:0 can be reached from other hosts"]


def test_a_port_alone_is_of_this_machine_alone(start: Callable[..., Server]) -> None:
    said: list[str] = []
    assert (start(None, ":0", say=said.append).address[0], said) == ("127.0.0.1", [])


@pytest.mark.parametrize("listen", ["127.0.0.1:0", "0.0.0.0:0"])
def test_a_name_that_others_pointed_at_us_is_not_ours(start: Callable[..., Server], listen: str) -> None:
    server = start(None, listen, allowed_hosts=("Node1.example.org",))
    own = ("localhost", "LOCALHOST:9841", "127.0.0.1:1", "[::1]:80", "10.1.2.3", socket.gethostname(), "localhost.")
    for host in (*own, "node1.example.org:9841"):
        assert ask(server, Host=host)[0] == 200, host
    for host in ("evil.example", "localhost.evil.example", "127.0.0.1.evil.example:9841", "node1", "a@b@c", "["):
        status, _, body = ask(server, Host=host)
        assert (status, body) == (421, b"not a name of this host: give --allowed-host\n"), host
    assert send(server, b"GET /healthz HTTP/1.0\r\n\r\n").startswith(b"HTTP/1.1 200 ")  # no browser


def test_one_address_cannot_keep_out_the_others(start: Callable[..., Server]) -> None:
    server = start(connection_seconds=30)
    held = [socket.create_connection(server.address, timeout=60) for _ in range(MOST_CONNECTIONS)]
    try:
        with socket.create_connection(server.address, 10, ("127.0.0.2", 0)) as other:
            other.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
            assert other.recv(12) == b"HTTP/1.1 200"
        assert server.refused == MOST_CONNECTIONS - MOST_CONNECTIONS_PER_ADDRESS
    finally:
        for connection in held:
            connection.close()


def test_on_loopback_there_is_nothing_to_say(start: Callable[..., Server]) -> None:
    said: list[str] = []
    start(None, "127.0.0.1:0", say=said.append)

    assert said == []


def test_a_password_is_asked_for_and_the_path_that_is_excepted_needs_none(
    start: Callable[..., Server], tmp_path: Path
) -> None:
    config = tmp_path / "web.yml"
    config.write_text(f"basic_auth_users: {{alice: '{SECRET}'}}\nauth_excluded_paths: [/healthz]\n")
    server = start(None, "127.0.0.1:0", config)
    status, headers, body = ask(server)

    assert (status, headers["www-authenticate"], body) == (
        401,
        'Basic realm="gpulake", charset="UTF-8"',
        b"unauthorized\n",
    )
    assert ask(server, Authorization=basic("alice", "secret"))[0] == 200
    assert ask(server, Authorization=basic("alice", "Secret"))[0] == 401
    assert ask(server, Authorization=basic("bob", "secret"))[0] == 401
    assert ask(server, Authorization="Bearer secret")[0] == 401
    assert ask(server, Authorization="Basic !!!")[0] == 401
    assert ask(server, Authorization="Basic \xe9\xe9\xe9\xe9")[0] == 401
    assert ask(server, "/healthz")[0] == 200
    assert ask(server, "/")[0] == 401


def test_many_wrong_passwords_are_throttled_and_known_clients_are_not(
    start: Callable[..., Server], tmp_path: Path
) -> None:
    config = tmp_path / "web.yml"
    config.write_text(f"basic_auth_users: {{alice: '{SECRET}'}}\n")
    server = start(None, "127.0.0.1:0", config, clock=clock())
    known = ask(server, Authorization=basic("alice", "secret"))[0]
    guesses = [ask(server, Authorization=basic("alice", str(number)))[0] for number in range(12)]

    assert (known, guesses) == (200, [401] * 9 + [429] * 3)
    assert ask(server, Authorization=basic("alice", "secret"))[0] == 200


def test_a_changed_file_counts_at_once_and_a_broken_one_lets_nobody_in(
    start: Callable[..., Server], tmp_path: Path
) -> None:
    config = tmp_path / "web.yml"
    config.write_text("http_server_config: {headers: {X-Frame-Options: deny}}\n")
    said: list[str] = []
    server = start(None, "127.0.0.1:0", config, say=said.append)
    before = ask(server)
    config.write_text(f"basic_auth_users: {{alice: '{SECRET}'}}\n")
    after = ask(server)[0]
    config.write_text("basic_auth_users: {alice: open sesame}\n")

    assert (before[0], before[1]["x-frame-options"], after) == (200, "deny", 401)
    assert send(server, b"GET / HTTP/1.1\r\n\r\n") == b""
    assert send(server, b"GET / HTTP/1.1\r\n\r\n") == b""
    assert said == [f"nobody is let in: {config}: what user 'alice' has is no bcrypt hash"]
    config.write_text("{}\n")
    assert ask(server)[0] == 200
