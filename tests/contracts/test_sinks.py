"""What holds for every sink: it sends once, fails as an error that names it, trusts no word and tells no secret."""

from __future__ import annotations

import hashlib
import hmac
import json
import logging
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from gpulake.act.alerts.alert import Alert
from gpulake.act.alerts.sending import Sending
from gpulake.act.sinks import SINKS, Setup, Sink, masked
from gpulake.core.alert_settings import Alerts, SinkSettings
from gpulake.core.clock import FrozenClock
from gpulake.core.errors import ConfigError, SinkError
from gpulake.lake import Lake
from receiving import Receiver, listening_receiver, receiver

AT = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
SECRET = "hunter2-T0kEn/part-B00"
HOSTILE = '<!channel> @everyone [x](http://evil) "quotes" \\n {job_id} $(reboot) \N{RIGHT-TO-LEFT OVERRIDE} ünï'
ALERT = Alert(
    *("a-1", AT, "queued", "ops", "opened", "i-1", "critical", "gpu_hot", "c", "n1", None, "n1/gpu3"),
    title="[critical] GPU 3 of n1 is hot",
    body="GPU 3 of n1 is hot\nLook further: gpulake incidents show i-1",
    happened_at=AT,
    began_at=AT - timedelta(hours=1),
)
# Apprise imports what it could do without.
pytestmark = pytest.mark.filterwarnings("ignore:'imghdr' is deprecated:DeprecationWarning")
ALL = sorted(SINKS)


@pytest.fixture
def server() -> Iterator[Receiver]:
    with listening_receiver() as own:
        yield own


def setup(kind: str, own: Receiver, **values: Any) -> Setup:
    scheme = "json" if kind == "apprise" else "http"
    environment = {"SINK_URL": f"{scheme}://127.0.0.1:{own.port}/{SECRET}", "SINK_KEY": SECRET}
    settings = SinkSettings(kind=kind, url_variable="SINK_URL", **({"timeout_seconds": 5.0} | values))
    return Setup("ops", settings, environment, FrozenClock(AT))


def sink(kind: str, own: Receiver, **values: Any) -> Sink:
    return SINKS.get(kind)(setup(kind, own, **values))


@pytest.mark.parametrize("kind", ALL)
def test_it_sends_once(kind: str, server: Receiver) -> None:
    sink(kind, server).send(ALERT)
    assert len(server.requests) == 1
    assert ALERT.title in str(server.requests[0].document)
    assert "gpulake incidents show i-1" in str(server.requests[0].document)


@pytest.mark.parametrize("kind", ALL)
@pytest.mark.parametrize("status", [301, 307, 401, 404, 429, 500, 503])
def test_it_fails_as_an_error_that_names_it(kind: str, status: int, server: Receiver) -> None:
    elsewhere = {"Location": f"{server.url}/elsewhere"}
    server.answer = (status, elsewhere, f"no: {SECRET}".encode())
    with pytest.raises(SinkError, match=r"^sink ops: ") as caught:
        sink(kind, server).send(ALERT)
    assert [request.path for request in server.requests if request.path == "/elsewhere"] == []
    assert len(server.requests) == 1
    assert not caught.value.is_final
    _holds_no_secret(caught.value.message + caught.value.hint)


@pytest.mark.parametrize("kind", ALL)
def test_it_fails_where_nobody_listens(kind: str) -> None:
    with receiver() as own, pytest.raises(SinkError, match=r"^sink ops: ") as caught:
        sink(kind, own).send(ALERT)
    _holds_no_secret(caught.value.message)


@pytest.mark.parametrize("kind", ALL)
def test_it_fails_where_its_variable_is_not_set(kind: str, server: Receiver) -> None:
    bare = replace(setup(kind, server), environment={})
    with pytest.raises(SinkError, match=r"^sink ops: the environment variable SINK_URL is not set"):
        SINKS.get(kind)(bare).send(ALERT)
    nameless = replace(bare, settings=SinkSettings(kind=kind))
    with pytest.raises(SinkError, match=r"^sink ops: it has no address"):
        SINKS.get(kind)(nameless).send(ALERT)
    assert server.requests == []


@pytest.mark.parametrize("kind", ALL)
@pytest.mark.parametrize("address", ["no address", "http://[::1", "ftp://x/y", "", "nonsense://a/b"])
def test_an_address_that_is_none_is_an_error(kind: str, address: str, server: Receiver) -> None:
    own = replace(setup(kind, server), environment={"SINK_URL": address})
    with pytest.raises(SinkError, match=r"^sink ops: "):
        SINKS.get(kind)(own).send(ALERT)


@pytest.mark.parametrize("kind", ALL)
def test_hostile_words_arrive_as_words(kind: str, server: Receiver) -> None:
    sink(kind, server).send(replace(ALERT, title=HOSTILE, body=f"{HOSTILE}\n{HOSTILE}", node=HOSTILE, kind=HOSTILE))
    (request,) = server.requests
    reported = json.dumps(request.document, ensure_ascii=False)
    assert "{job_id} $(reboot)" in reported
    assert all(value.isascii() for value in request.headers.values())
    if kind == "apprise":
        assert "<!channel>" not in reported
        assert "@everyone" not in reported


@pytest.mark.parametrize("kind", ALL)
def test_an_alert_goes_out_once_and_leaves_no_secret(
    kind: str, server: Receiver, lake: Lake, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    caplog.set_level(logging.DEBUG)
    own = setup(kind, server)
    lake.append("alert_events", [ALERT.row(), replace(ALERT, alert_id="a-2").row()])
    sending = Sending(lake, Alerts(sinks={"ops": own.settings}), FrozenClock(AT), own.environment)
    server.answer = (500, {}, SECRET.encode())
    assert sending.drain().sent == 0
    sending.clock.at += timedelta(hours=1)  # type: ignore[attr-defined]
    server.answer = (200, {}, SECRET.encode())
    assert sending.drain().sent == 2
    assert sending.drain().sent == 0
    assert len(server.requests) == 3
    _holds_no_secret((lake.root / "alerts.jsonl").read_text(), caplog.text, *capfd.readouterr())


@pytest.mark.parametrize("kind", ALL)
def test_a_test_says_what_happened(kind: str, server: Receiver, lake: Lake) -> None:
    own = setup(kind, server)
    sending = Sending(lake, Alerts(sinks={"ops": own.settings}), FrozenClock(AT), own.environment)
    assert sending.test("ops").state == "sent"
    server.answer = (503, {}, b"")
    with pytest.raises(SinkError, match=r"^sink ops: "):
        sending.test("ops")
    assert [row["state"] for row in lake.journal("alert_events")] == ["sent", "dropped"]
    assert sending.drain().sent == 0


def _holds_no_secret(*texts: str) -> None:
    for text in texts:
        for piece in (SECRET, *SECRET.split("/")):
            assert piece not in text


# What is one sink's own


def test_a_webhook_has_a_key_and_a_signature(server: Receiver) -> None:
    sink("webhook", server, secret_variable="SINK_KEY", token_variable="SINK_KEY").send(ALERT)
    (request,) = server.requests
    assert request.headers["idempotency-key"] == "a-1"
    assert request.headers["authorization"] == f"Bearer {SECRET}"
    signed = f"{int(AT.timestamp())}.".encode() + request.body
    expected = hmac.new(SECRET.encode(), signed, hashlib.sha256).hexdigest()
    assert request.headers["x-gpulake-signature"] == f"t={int(AT.timestamp())},v1={expected}"
    assert request.document == {
        "version": 1,
        "id": "a-1",
        "event": "opened",
        "severity": "critical",
        "title": ALERT.title,
        "body": ALERT.body,
        "happened_at": "2026-01-02T03:04:05+00:00",
        "incident": {
            "id": "i-1",
            "kind": "gpu_hot",
            "cluster_id": "c",
            "node": "n1",
            "job_id": None,
            "subject": "n1/gpu3",
            "opened_at": "2026-01-02T02:04:05+00:00",
            "is_over": False,
        },
    }


@pytest.mark.parametrize("status", [400, 413, 415, 422])
@pytest.mark.parametrize("kind", ["webhook", "alertmanager"])
def test_what_is_refused_is_not_tried_again(kind: str, status: int, server: Receiver) -> None:
    server.answer = (status, {}, b"what is this?")
    with pytest.raises(SinkError) as caught:
        sink(kind, server).send(ALERT)
    assert caught.value.message == f"sink ops: status {status}, what is this?"
    assert caught.value.is_final


def test_one_who_is_busy_may_say_for_how_long(server: Receiver) -> None:
    for given, expected in (("17", 17.0), ("Wed, 21 Oct 2026 07:28:00 GMT", None), ("-1", None)):
        server.answer = (429, {"Retry-After": given}, b"")
        with pytest.raises(SinkError) as caught:
            sink("webhook", server).send(ALERT)
        assert caught.value.retry_after_seconds == expected


@pytest.fixture
def slow_server() -> Iterator[Callable[[bytes], int]]:
    """It begins so, goes on a byte at a time, and never ends."""
    stop = threading.Event()
    sockets: list[socket.socket] = []

    def serve(begin: bytes) -> int:
        listener = socket.create_server(("127.0.0.1", 0))
        sockets.append(listener)

        def talk() -> None:
            with suppress(OSError):
                connection = listener.accept()[0]
                sockets.append(connection)
                connection.sendall(begin)
                while not stop.wait(0.02):
                    connection.sendall(b"x")

        threading.Thread(target=talk, daemon=True).start()
        return int(listener.getsockname()[1])

    yield serve
    stop.set()
    for own in sockets:
        own.close()


def slow_sink(port: int) -> Sink:
    settings = SinkSettings(kind="webhook", url=f"http://127.0.0.1:{port}/", timeout_seconds=0.3)
    return SINKS.get("webhook")(Setup("ops", settings, {}, FrozenClock(AT)))


def test_one_who_never_comes_to_an_answer_does_not_keep_us(slow_server: Callable[[bytes], int]) -> None:
    with pytest.raises(SinkError, match=r"^sink ops: no answer within 0.3 seconds$"):
        slow_sink(slow_server(b"HTTP/1.1 2")).send(ALERT)


@pytest.mark.parametrize("begin", [b"X-A: ", b"Content-Length: 4000\r\n\r\n"])
def test_one_who_takes_it_and_talks_on_has_taken_it(slow_server: Callable[[bytes], int], begin: bytes) -> None:
    slow_sink(slow_server(b"HTTP/1.1 200 OK\r\n" + begin)).send(ALERT)


def test_an_untrusted_certificate_gets_no_alert() -> None:
    listener = socket.create_server(("127.0.0.1", 0))
    heard: list[bytes] = []

    def hear() -> None:
        with suppress(OSError, ssl.SSLError):
            connection = listener.accept()[0]
            heard.append(connection.recv(5))
            connection.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
            connection.close()

    thread = threading.Thread(target=hear, daemon=True)
    thread.start()
    settings = SinkSettings(kind="webhook", url=f"https://127.0.0.1:{listener.getsockname()[1]}/", timeout_seconds=2)
    with pytest.raises(SinkError, match=r"^sink ops: no safe connection"):
        SINKS.get("webhook")(Setup("ops", settings, {}, FrozenClock(AT))).send(ALERT)
    thread.join(5)
    listener.close()
    assert heard == [b"\x16\x03\x01\x02\x00"] or heard[0].startswith(b"\x16")


@pytest.mark.parametrize("kind", ["webhook", "alertmanager"])
def test_nothing_goes_over_a_network_in_the_clear(kind: str) -> None:
    far = {"SINK_URL": "http://hooks.example.org/x"}
    plain = Setup("ops", SinkSettings(kind=kind, url_variable="SINK_URL"), far, FrozenClock(AT))
    with pytest.raises(SinkError, match="in the clear"):
        SINKS.get(kind)(plain).send(ALERT)
    with pytest.raises(ConfigError, match="in the clear"):
        SinkSettings(kind=kind, url="http://hooks.example.org/x")
    assert SinkSettings(kind=kind, url="http://hooks.example.org/x", allow_plain_http=True).url


def alertmanager_documents(server: Receiver, **changes: Any) -> list[dict[str, Any]]:
    server.requests.clear()
    sink("alertmanager", server).send(replace(ALERT, **changes))
    documents: list[dict[str, Any]] = server.requests[0].document
    return documents


def test_alertmanager_in_its_own_words(server: Receiver) -> None:
    (opened,) = alertmanager_documents(server, link="https://lake.example.org/i-1")
    assert server.requests[0].path == f"/{SECRET}/api/v2/alerts"
    assert opened == {
        "labels": {
            "alertname": "gpulake_gpu_hot",
            "source": "gpulake",
            "severity": "critical",
            "incident_id": "i-1",
            "cluster": "c",
            "node": "n1",
        },
        "annotations": {"summary": ALERT.title, "description": ALERT.body},
        "startsAt": "2026-01-02T02:04:05.000Z",
        "endsAt": "2026-02-01T03:04:05.000Z",
        "generatorURL": "https://lake.example.org/i-1",
    }


def test_alertmanager_hears_the_end_of_every_severity(server: Receiver) -> None:
    for event, expected in (
        ("worsened", {"critical": "2026-02-01T03:04:05.000Z", "info": AT, "warning": AT}),
        ("resolved", {"critical": AT, "info": AT, "warning": AT}),
    ):
        ends = {one["labels"]["severity"]: one["endsAt"] for one in alertmanager_documents(server, event=event)}
        assert ends == {name: "2026-01-02T03:04:05.000Z" if at == AT else at for name, at in expected.items()}
    (over,) = alertmanager_documents(server, is_over=True)
    assert over["endsAt"] == "2026-01-02T04:04:05.000Z"


def test_apprise_takes_one_address(server: Receiver) -> None:
    own = setup("apprise", server)
    two = {"SINK_URL": f"{own.environment['SINK_URL']} {own.environment['SINK_URL']}x"}
    with pytest.raises(SinkError, match="SINK_URL holds no address that Apprise knows"):
        SINKS.get("apprise")(replace(own, environment=two)).send(ALERT)


def test_secrets_are_masked_whole_and_in_pieces() -> None:
    url = "https://user:pass-word@hooks.example.org/services/T0/B123456/XyZ?token=abcd"
    pieces = ["services", "B123456", "pass-word", "abcd", url]
    assert masked(f"{url} B123456 pass-word, ok", pieces) == "*** *** ***, ok"
