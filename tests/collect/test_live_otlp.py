"""OTLP: the shape of what is pushed, and a receiver that is slow, away, choosy or hostile."""

from __future__ import annotations

import gzip
import json
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpulake.collect.live import push as pushing
from gpulake.collect.live.encoding import encode, rejected
from gpulake.collect.live.metrics import families
from gpulake.collect.live.push import Pusher, find_receiver
from gpulake.collect.live.session import LiveOptions, live
from gpulake.collect.live.state import State
from gpulake.formats.names import STYLES, table
from live_rows import IDENTITY, NOW_MS, ROWS, TRAINER, TRAINER_SAMPLE, clock, state


def request(of: State, style: str = "otel") -> dict[str, Any]:
    snapshot = of.snapshot()
    assert snapshot is not None
    body, _ = encode(snapshot, families(snapshot, table(style)))
    found: dict[str, Any] = json.loads(body)
    return found


def metrics(of: dict[str, Any]) -> dict[str, dict[str, Any]]:
    (resource,) = of["resourceMetrics"]
    (scope,) = resource["scopeMetrics"]
    return {metric["name"]: metric for metric in scope["metrics"]}


# The fields of opentelemetry.proto.metrics.v1, in the camel case of their JSON form.
NUMBER_POINT = {"attributes", "timeUnixNano", "startTimeUnixNano", "asInt", "asDouble"}


@pytest.mark.parametrize("style", STYLES)
def test_a_request_has_the_fields_of_the_protocol_and_no_others(style: str) -> None:
    found = request(state(), style)

    assert set(found) == {"resourceMetrics"}
    assert set(found["resourceMetrics"][0]) == {"resource", "scopeMetrics"}
    assert set(found["resourceMetrics"][0]["scopeMetrics"][0]) == {"scope", "metrics"}
    for metric in metrics(found).values():
        (data,) = set(metric) - {"name", "description", "unit"}
        assert set(metric[data]) == (
            {"dataPoints"} if data == "gauge" else {"dataPoints", "aggregationTemporality", "isMonotonic"}
        )
        for point in metric[data]["dataPoints"]:
            assert set(point) <= NUMBER_POINT
            assert ("asInt" in point) != ("asDouble" in point)
            assert point["timeUnixNano"] == f"{NOW_MS}000000"
            assert ("startTimeUnixNano" in point) == (data == "sum")
            assert 0 < int(point.get("startTimeUnixNano", 1)) <= int(point["timeUnixNano"])
            assert {type(point.get("asInt", "")), type(point.get("asDouble", 0.0))} == {str, float}
            keys = [attribute["key"] for attribute in point["attributes"]]
            assert len(keys) == len(set(keys))


def test_the_resource_names_the_sender() -> None:
    resource = request(state())["resourceMetrics"][0]["resource"]["attributes"]
    found = {attribute["key"]: attribute["value"]["stringValue"] for attribute in resource}

    assert (found["service.name"], found["host.name"], found["host.id"]) == ("gpulake", "n1.example", "abcdef012345")


def test_a_counter_is_a_cumulative_sum_since_its_own_beginning() -> None:
    metric = metrics(request(state((TRAINER, TRAINER_SAMPLE))))["process.cpu.time"]
    boot_ms, pid = NOW_MS - 1_000_000, {"key": "process.pid", "value": {"intValue": "4242"}}

    assert metric["sum"]["aggregationTemporality"] == 2
    assert metric["sum"]["isMonotonic"] is True
    assert metric["unit"] == "s"
    first = metric["sum"]["dataPoints"][0]
    assert (first["asDouble"], first["startTimeUnixNano"]) == (3.0, f"{boot_ms + 50_000}000000")
    assert pid in first["attributes"]
    assert {"key": "cpu.mode", "value": {"stringValue": "user"}} in first["attributes"]


def test_whole_numbers_are_texts_and_sums_that_fall_are_not_monotonic() -> None:
    metric = metrics(request(state()))["hw.gpu.memory.usage"]

    assert metric["sum"]["isMonotonic"] is False
    assert [point["asInt"] for point in metric["sum"]["dataPoints"]] == ["1074266112", "0"]


@given(comm=st.text(), owner=st.text(min_size=1))
def test_no_text_can_break_out_of_its_place(comm: str, owner: str) -> None:
    found = request(state((TRAINER._replace(comm=comm, owner_id=owner), TRAINER_SAMPLE)))
    (point,) = metrics(found)["process.thread.count"]["sum"]["dataPoints"]
    reported = {pair["key"]: pair["value"].get("stringValue") for pair in point["attributes"]}

    assert (reported.get("comm", ""), reported["owner_id"]) == (comm, owner)


def test_bytes_that_are_no_text_are_replaced_here_too() -> None:
    hostile = TRAINER._replace(comm=b"a\xffb".decode("utf-8", "surrogateescape"))
    (point,) = metrics(request(state((hostile, TRAINER_SAMPLE))))["process.thread.count"]["sum"]["dataPoints"]

    assert {"key": "comm", "value": {"stringValue": "a\ufffdb"}} in point["attributes"]


@pytest.mark.parametrize(
    ("answer", "found"),
    [
        (b"", (0, "")),
        (b"{}", (0, "")),
        (b'{"partialSuccess":{"rejectedDataPoints":"3","errorMessage":"too old"}}', (3, "too old")),
        (b'{"partialSuccess":{"rejectedDataPoints":2}}', (2, "")),
        (b"<html>", (0, "")),
        (b"[]", (0, "")),
        (b'{"partialSuccess":{"rejectedDataPoints":"many"}}', (0, "")),
    ],
)
def test_what_a_receiver_did_not_take_is_read_from_its_answer(answer: bytes, found: tuple[int, str]) -> None:
    assert rejected(answer) == found


class Fake:
    """A receiver that answers as it is told, and keeps what it got."""

    def __init__(self) -> None:
        self.answers: list[tuple[int, dict[str, str], bytes]] = []  # the last one stays
        self.got: list[tuple[str, dict[str, str], dict[str, Any]]] = []
        fake = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                headers = {name.lower(): value for name, value in self.headers.items()}
                fake.got.append((self.path, headers, json.loads(gzip.decompress(body))))
                status, more, answer = fake.answers.pop(0) if len(fake.answers) > 1 else fake.answers[0]
                self.send_response(status)
                for name, value in ({"Content-Length": str(len(answer))} | more).items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(answer)

            def log_message(self, *_: Any) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.thread = threading.Thread(target=self.server.serve_forever, args=(0.02,), daemon=True)
        self.thread.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server.server_address[1]}"

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()


@pytest.fixture
def fake() -> Iterator[Fake]:
    made = Fake()
    made.answers = [(200, {}, b"{}")]
    yield made
    made.close()


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Pusher]]:
    monkeypatch.setattr(pushing, "LEAST_WAIT_SECONDS", 0.01)
    for name in ("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
    pushers: list[Pusher] = []

    def start(of: State, url: str, **options: Any) -> Pusher:
        receiver = find_receiver(url, options.pop("environment", {}))
        assert receiver is not None
        pushers.append(Pusher(of, receiver, every_seconds=options.pop("every_seconds", 0.05), **options))
        return pushers[-1]

    yield start
    for pusher in pushers:
        pusher.close()


def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline, "it did not come about"
        time.sleep(0.005)


def counts(of: State) -> dict[str, int]:
    snapshot = of.snapshot()
    assert snapshot is not None
    return dict(snapshot.pushed)


def test_metrics_arrive_with_the_headers_of_the_environment(fake: Fake, started: Callable[..., Pusher]) -> None:
    of = state()
    environment = {"OTEL_EXPORTER_OTLP_HEADERS": "Authorization=Bearer%20abc,x-tenant=t1"}
    started(of, fake.url, environment=environment)
    until(lambda: counts(of)["points_sent_total"] > 0)
    path, headers, body = fake.got[0]

    assert path == "/v1/metrics"
    assert {name: headers[name] for name in ("content-type", "content-encoding", "authorization", "x-tenant")} == {
        "content-type": "application/json",
        "content-encoding": "gzip",
        "authorization": "Bearer abc",
        "x-tenant": "t1",
    }
    assert "DCGM_FI_DEV_GPU_UTIL" in metrics(body)


def test_a_receiver_that_is_busy_is_tried_again_and_nothing_is_lost(fake: Fake, started: Callable[..., Pusher]) -> None:
    fake.answers = [(503, {}, b""), (429, {"Retry-After": "0"}, b""), (502, {}, b""), (200, {}, b"{}")]
    said: list[str] = []
    of = state()
    started(of, fake.url, say=said.append)
    until(lambda: counts(of)["points_sent_total"] > 0)

    assert [counts(of)[name] for name in ("points_dropped_total", "requests_failed_total")] == [0, 3]
    assert fake.got[0][2] == fake.got[1][2] == fake.got[2][2] == fake.got[3][2]
    assert said[0] == f"{fake.url} does not take metrics, and is tried again: HTTP 503"


def test_a_receiver_that_asks_for_time_gets_it(fake: Fake, started: Callable[..., Pusher]) -> None:
    fake.answers = [(429, {"Retry-After": "3600"}, b""), (200, {}, b"{}")]
    of = state()
    started(of, fake.url, every_seconds=0.02)
    until(lambda: counts(of)["requests_failed_total"] == 1)
    until(lambda: counts(of)["points_dropped_total"] > 0)  # many have come due since, and none was sent

    assert len(fake.got) == 1


def test_what_a_receiver_refuses_for_good_is_dropped_counted_and_said(
    fake: Fake, started: Callable[..., Pusher]
) -> None:
    fake.answers = [(400, {}, b"")]
    said: list[str] = []
    of = state()
    started(of, fake.url, say=said.append)
    until(lambda: counts(of)["points_dropped_total"] > 0)

    assert said == [f"metrics for {fake.url} were dropped: HTTP 400"]


def test_a_redirect_is_not_followed(fake: Fake, started: Callable[..., Pusher]) -> None:
    other = Fake()
    other.answers = [(200, {}, b"{}")]
    fake.answers = [(307, {"Location": f"{other.url}/v1/metrics"}, b"")]
    of = state()
    try:
        started(of, fake.url)
        until(lambda: counts(of)["points_dropped_total"] > 0)
        assert other.got == []
    finally:
        other.close()


def test_points_that_were_not_taken_are_counted(fake: Fake, started: Callable[..., Pusher]) -> None:
    fake.answers = [
        (200, {}, b'{"partialSuccess":{"rejectedDataPoints":"3","errorMessage":"too old"}}'),
        (200, {}, b"{}"),
    ]
    said: list[str] = []
    of = state()
    started(of, fake.url, say=said.append)
    until(lambda: len(fake.got) > 1)

    assert counts(of)["points_dropped_total"] == 3
    assert said == [f"{fake.url} did not take 3 points: 'too old'"]


def test_a_receiver_that_is_away_costs_the_oldest_once_there_are_too_many(started: Callable[..., Pusher]) -> None:
    gone = Fake()
    gone.close()
    said: list[str] = []
    of = state()
    pusher = started(of, gone.url, every_seconds=0.005, say=said.append)
    until(lambda: counts(of)["points_dropped_total"] > 0)

    assert len(pusher._queue) <= pushing.MOST_QUEUED + 1
    assert f"metrics for {gone.url} were dropped: there are too many to keep" in said


def test_nothing_is_sent_when_the_sampler_stands_still(fake: Fake, started: Callable[..., Pusher]) -> None:
    at = clock()
    of = state(at=at)
    at.elapsed_seconds += 60
    pusher = started(of, fake.url, every_seconds=0.01)
    pusher.close()

    assert fake.got == []


def test_what_is_left_at_the_end_is_sent(fake: Fake, started: Callable[..., Pusher]) -> None:
    of = state()
    pusher = started(of, fake.url, every_seconds=3600)
    pusher.close()

    assert len(fake.got) == 1
    assert counts(of)["points_sent_total"] > 0


def test_going_live_serves_and_pushes_what_the_sampler_tells(fake: Fake) -> None:
    said: list[str] = []
    options = LiveOptions(listen="127.0.0.1:0", names="otel", otlp=fake.url, otlp_every_seconds=3600)
    with live(options, interval_seconds=1.0, say=said.append, environment={}) as of:
        assert of is not None
        # The clock is the machine's own here, so the tick must be of now.
        of.observe(IDENTITY, round(time.clock_gettime(time.CLOCK_BOOTTIME) * 1000), NOW_MS, ROWS)

    assert [line.rsplit(" at ")[0].split(" every")[0] for line in said] == [
        "metrics are served",
        f"metrics are pushed to {fake.url}",
    ]
    assert "system.cpu.time" in metrics(fake.got[0][2])
