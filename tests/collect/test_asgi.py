"""The tracing middleware: requests as invocations, in a real event loop, with bodies that stream and apps that fail."""

from __future__ import annotations

import asyncio
import json
import os
import threading
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator, MutableMapping
from pathlib import Path
from typing import Any, ClassVar

import pytest

from collect.waiting import until
from gpulake.collect.adapters.asgi import TracingMiddleware, outgoing_headers
from gpulake.collect.tracing.appending import BackgroundWriter
from gpulake.core.tables import cctf_tables

PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
Message = MutableMapping[str, Any]
App = Callable[[Any, Any, Any], Awaitable[None]]


class Client:
    """Calls an app as a server would."""

    made: ClassVar[list[Client]] = []

    def __init__(self, app: App, folder: Path, *, interval_seconds: float = 3600, **options: str) -> None:
        self.folder = folder
        self.middleware = TracingMiddleware(
            app, run_dir=folder, node="web1", interval_seconds=interval_seconds, clock=None, **options
        )
        self.made.append(self)

    async def get(
        self,
        path: str = "/",
        *,
        headers: Iterable[tuple[str, str]] = (),
        body: Iterable[bytes] = (),
        kind: str = "http",
    ) -> list[Message]:
        parts = list(body) or [b""]
        messages = iter(
            [{"type": "http.request", "body": part, "more_body": part is not parts[-1]} for part in parts]
            + [{"type": "http.disconnect"}]
        )
        sent: list[Message] = []

        async def receive() -> Message:
            return next(messages)

        async def send(message: Message) -> None:
            sent.append(message)

        scope = {
            "type": kind,
            "method": "POST",
            "path": path,
            "headers": [(name.encode(), value.encode("latin-1")) for name, value in headers],
        }
        await self.middleware(scope, receive, send)
        return sent

    def rows(self, pattern: str = "events.asgi.*.jsonl") -> list[dict[str, Any]]:
        self.middleware.flush()
        return [
            json.loads(text) for path in sorted(self.folder.glob(pattern)) for text in path.read_text().splitlines()
        ]


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    yield tmp_path / "r1" / "web1"
    while Client.made:
        Client.made.pop().middleware.close()


async def answer(send: Any, *parts: bytes, status: int = 200) -> None:
    await send({"type": "http.response.start", "status": status, "headers": [(b"content-type", b"text/plain")]})
    for part in parts[:-1]:
        await send({"type": "http.response.body", "body": part, "more_body": True})
    await send({"type": "http.response.body", "body": parts[-1] if parts else b""})


async def echo(_: Any, receive: Any, send: Any) -> None:
    parts = []
    while (message := await receive())["type"] == "http.request":
        parts.append(message["body"])
        if not message["more_body"]:
            break
    await answer(send, *parts)


def test_a_request_is_an_invocation(folder: Path) -> None:
    client = Client(echo, folder, module_id="api", stage="edge")
    before_ms = time.time_ns() // 1_000_000
    asyncio.run(client.get("/jobs", headers=[("traceparent", PARENT)], body=[b"ab", b"cde"]))
    (row,) = client.rows()
    assert list(row) == list(cctf_tables()["invocations"].column_names)
    assert before_ms <= row["ts_enqueue"] == row["ts_start"] <= row["ts_end"] <= time.time_ns() // 1_000_000 + 1
    reported = {name: row[name] for name in ("trace_id", "parent_id", "module_id", "node", "stage", "method", "path")}
    assert reported == {
        "trace_id": PARENT[3:35],
        "parent_id": PARENT[36:52],
        "module_id": "api",
        "node": "web1",
        "stage": "edge",
        "method": "POST",
        "path": "/jobs",
    }
    reported = {name: row[name] for name in ("bytes_in", "bytes_out", "status", "pid", "queue_time_ms")}
    assert reported == {"bytes_in": 5, "bytes_out": 5, "status": 200, "pid": os.getpid(), "queue_time_ms": 0.0}
    assert row["proc_id"].endswith(f"-{os.getpid()}")


def test_the_answer_names_the_trace_unless_the_app_did(folder: Path) -> None:
    async def own(_: Any, __: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 204, "headers": [(b"X-Trace-Id", b"mine")]})
        await send({"type": "http.response.body"})

    headers = [("x-trace-id", "t-1")]
    first = asyncio.run(Client(echo, folder).get(headers=headers))
    second = asyncio.run(Client(own, folder).get(headers=headers))
    assert first[0]["headers"] == [(b"content-type", b"text/plain"), (b"x-trace-id", b"t-1")]
    assert second[0]["headers"] == [(b"X-Trace-Id", b"mine")]


def test_calls_downstream_carry_the_trace_and_nothing_outside_of_a_request(folder: Path) -> None:
    seen: list[dict[str, str]] = []

    async def calling(_: Any, __: Any, send: Any) -> None:
        seen.append(outgoing_headers())
        seen.append(await asyncio.to_thread(outgoing_headers))
        await answer(send)

    client = Client(calling, folder)
    asyncio.run(client.get(headers=[("x-trace-id", "t-1"), ("x-parent-span-id", "p-1")]))
    (row,) = client.rows()
    assert (row["trace_id"], row["parent_id"]) == ("t-1", "p-1")
    in_loop, in_thread = seen
    assert in_loop == in_thread
    assert in_loop["X-Trace-Id"] == "t-1"
    assert in_loop["X-Parent-Span-Id"] == in_loop["X-Span-Id"] == row["span_id"] == in_loop["traceparent"][36:52]
    assert outgoing_headers() == {}


def test_requests_at_the_same_time_keep_their_own_traces(folder: Path) -> None:
    """Each waits until all are under way, so that all of them overlap."""
    count = 50
    arrived = 0
    seen: dict[str, str] = {}

    async def together(scope: Any, _: Any, send: Any) -> None:
        nonlocal arrived
        arrived += 1
        while arrived < count:
            await asyncio.sleep(0)
        seen[scope["path"]] = outgoing_headers()["X-Trace-Id"]
        await answer(send, scope["path"].encode())

    client = Client(together, folder)

    async def all_of_them() -> None:
        await asyncio.gather(*(client.get(f"/{n}", headers=[("x-trace-id", f"t-{n}")]) for n in range(count)))

    asyncio.run(all_of_them())
    rows = client.rows()
    assert {row["path"]: row["trace_id"] for row in rows} == {f"/{n}": f"t-{n}" for n in range(count)} == seen
    assert len({row["span_id"] for row in rows}) == count


def test_a_stream_is_not_read_whole(folder: Path) -> None:
    """The app answers each part before it asks for the next one; the client sends the next only then."""
    order: list[str] = []

    async def streaming(_: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200})
        while True:
            message = await receive()
            order.append(f"got {message['body'].decode()}")
            await send({"type": "http.response.body", "body": message["body"] * 2, "more_body": message["more_body"]})
            if not message["more_body"]:
                return

    client = Client(streaming, folder)
    parts = iter([b"a", b"b", b""])

    async def receive() -> Message:
        part = next(parts)
        order.append(f"asked {part.decode()}")
        return {"type": "http.request", "body": part, "more_body": bool(part)}

    async def send(message: Message) -> None:
        order.append(message["type"].rpartition(".")[2])

    asyncio.run(client.middleware({"type": "http", "method": "GET", "path": "/", "headers": []}, receive, send))
    assert order == ["start", "asked a", "got a", "body", "asked b", "got b", "body", "asked ", "got ", "body"]
    assert [(row["bytes_in"], row["bytes_out"]) for row in client.rows()] == [(2, 4)]


def test_an_app_that_fails_is_recorded_with_500_and_its_error_goes_on(folder: Path) -> None:
    async def failing(scope: Any, _: Any, send: Any) -> None:
        if scope["path"] == "/late":
            await send({"type": "http.response.start", "status": 200})
        raise RuntimeError("no")

    client = Client(failing, folder)
    for path in ("/", "/late"):
        with pytest.raises(RuntimeError, match="no"):
            asyncio.run(client.get(path))
    assert [row["status"] for row in client.rows()] == [500, 500]


def test_what_fails_after_the_answer_is_not_the_requests(folder: Path) -> None:
    async def later(_: Any, __: Any, send: Any) -> None:
        await answer(send, b"done")
        raise RuntimeError("in the background")

    client = Client(later, folder)
    with pytest.raises(RuntimeError):
        asyncio.run(client.get())
    assert [row["status"] for row in client.rows()] == [200]


def test_a_client_that_disconnected_is_recorded(folder: Path) -> None:
    async def waiting(_: Any, __: Any, ___: Any) -> None:
        await asyncio.Event().wait()

    client = Client(waiting, folder)

    async def leaving() -> None:
        request = asyncio.create_task(client.get())
        await asyncio.sleep(0)
        request.cancel()
        with pytest.raises(asyncio.CancelledError):
            await request

    asyncio.run(leaving())
    assert [row["status"] for row in client.rows()] == [499]


def work() -> None:
    end = time.thread_time() + 0.03
    while time.thread_time() < end:
        pass


async def alone(_: Any, receive: Any, send: Any) -> None:
    await receive()
    work()
    await answer(send)


async def waits(_: Any, __: Any, send: Any) -> None:
    await asyncio.sleep(0)
    await answer(send)


async def in_a_thread(_: Any, __: Any, send: Any) -> None:
    await asyncio.to_thread(work)
    await answer(send)


async def in_a_task(_: Any, receive: Any, send: Any) -> None:
    async def busy() -> None:
        await receive()
        work()

    await asyncio.create_task(busy())
    await answer(send)


def test_cpu_time_is_reported_where_it_is_the_requests_own_and_nowhere_else(folder: Path) -> None:
    async def slow_client() -> Message:
        await asyncio.sleep(0)
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(_: Message) -> None:
        await asyncio.sleep(0)

    async def all_at_once() -> None:
        scope = {"type": "http", "method": "GET", "headers": []}
        apps = {"alone": alone, "waits": waits, "in_a_thread": in_a_thread, "in_a_task": in_a_task}
        calls = [Client(app, folder).middleware for app in apps.values()]
        await asyncio.gather(
            *(call(scope | {"path": name}, slow_client, send) for name, call in zip(apps, calls, strict=True))
        )
        for call in calls:
            call.flush()

    asyncio.run(all_at_once())
    reported = {row["path"]: row["cpu_time_ms"] for row in Client(echo, folder).rows()}
    alone_ms = reported.pop("alone")
    assert reported == {"waits": None, "in_a_thread": None, "in_a_task": None}
    assert 30 <= alone_ms < 60  # its own 30, not those of the other ones


@pytest.mark.parametrize(
    ("header", "value", "is_taken"),
    [
        ("x-request-start", "t={seconds:.3f}", True),
        ("x-request-start", "t={ms}", True),
        ("x-queue-start", "{ms}000", True),
        ("x-request-start", "t={later}", False),
        ("x-request-start", "t=1000000000", False),
        ("x-request-start", "t=soon", False),
        ("x-request-start", "", False),
    ],
)
def test_time_in_the_queue_comes_from_the_proxy(folder: Path, header: str, value: str, is_taken: bool) -> None:
    ms = time.time_ns() // 1_000_000 - 1500
    client = Client(echo, folder)
    text = value.format(seconds=ms / 1000, ms=ms, later=ms + 3_600_000)
    asyncio.run(client.get(headers=[(header, text)]))
    (row,) = client.rows()
    assert row["ts_enqueue"] == (ms if is_taken else row["ts_start"])
    assert row["queue_time_ms"] == row["ts_start"] - row["ts_enqueue"]


@pytest.mark.parametrize("text", ['<script>"', "'; drop table jobs; --", "../../etc", "{{7*7}}"])
def test_hostile_ids_are_data(folder: Path, text: str) -> None:
    client = Client(echo, folder)
    asyncio.run(client.get(f"/{text}", headers=[("x-trace-id", text)]))
    (row,) = client.rows()
    assert (row["trace_id"], row["path"]) == (text, f"/{text}")


@pytest.mark.parametrize("text", ["x" * 1000, "\xff\xfe", "a\tb"])
def test_what_is_no_id_is_replaced(folder: Path, text: str) -> None:
    client = Client(echo, folder)
    asyncio.run(client.get(headers=[("x-trace-id", text)]))
    (row,) = client.rows()
    assert len(row["trace_id"]) == 32


def test_a_websocket_passes_through(folder: Path) -> None:
    async def socket(scope: Any, _: Any, send: Any) -> None:
        await send({"type": "websocket.accept", "scope": scope["type"]})

    client = Client(socket, folder)
    assert asyncio.run(client.get(kind="websocket")) == [{"type": "websocket.accept", "scope": "websocket"}]
    assert client.rows() == []


def test_a_service_is_placed_from_its_start_to_its_end(folder: Path) -> None:
    async def living(_: Any, receive: Any, send: Any) -> None:
        for word in ("startup", "shutdown"):
            assert (await receive())["type"] == f"lifespan.{word}"
            await send({"type": f"lifespan.{word}.complete"})

    client = Client(living, folder, module_id="api", app_id="shop")
    reported = iter(["lifespan.startup", "lifespan.shutdown"])

    async def receive() -> Message:
        return {"type": next(reported)}

    async def send(_: Message) -> None:
        pass

    asyncio.run(client.middleware({"type": "lifespan"}, receive, send))
    events = [json.loads(text) for text in (folder / "placement_events.jsonl").read_text().splitlines()]
    assert [(one["event"], one["app_id"], one["module_id"], one["node_id"]) for one in events] == [
        ("start", "shop", "api", "web1"),
        ("stop", "shop", "api", "web1"),
    ]
    assert {one["instance_id"] for one in events} == {f"pid-{os.getpid()}"}


def test_requests_under_way_are_counted_while_there_are_any(folder: Path) -> None:
    client: Client

    async def looking(_: Any, __: Any, send: Any) -> None:
        client.middleware.flush()
        await answer(send)

    client = Client(looking, folder)

    async def two() -> None:
        await asyncio.gather(client.get(), client.get())

    asyncio.run(two())
    for _ in range(3):
        client.middleware.flush()
    rows = client.rows("system_stats.jsonl")
    # Both looked while they were under way; then none is told once.
    assert [row["value"] for row in rows] == [1, 1, 0]
    assert list(rows[0]) == list(cctf_tables()["system_stats"].column_names)
    assert {(row["metric"], row["node"]) for row in rows} == {("in_flight", "web1")}


def test_records_are_written_by_themselves(folder: Path) -> None:
    client = Client(echo, folder, interval_seconds=0.01)
    asyncio.run(client.get())
    until(lambda: bool(list(folder.glob("events.asgi.*.jsonl"))))
    client.middleware.close()
    assert not any(thread.name == "gpulake-journal" and thread.is_alive() for thread in threading.enumerate())


def test_a_full_disk_holds_records_back_until_there_is_room(tmp_path: Path) -> None:
    blocked = tmp_path / "blocked"
    blocked.write_text("a file where a folder should be")
    writer = BackgroundWriter(interval_seconds=3600)
    writer.add(blocked / "events.jsonl", {"n": 1})
    writer.flush()
    writer.add(blocked / "events.jsonl", {"n": 2})
    blocked.unlink()
    writer.close()
    assert (blocked / "events.jsonl").read_text() == '{"n":1}\n{"n":2}\n'


def test_what_was_dropped_while_there_was_no_room_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("gpulake.collect.tracing.appending.MOST_WAITING", 2)
    blocked = tmp_path / "blocked"
    blocked.write_text("a file where a folder should be")
    writer = BackgroundWriter(interval_seconds=3600)
    for number in range(5):
        writer.add(blocked / "events.jsonl", {"n": number})
        writer.flush()
    blocked.unlink()
    writer.flush()
    writer.close()
    assert [record.message for record in caplog.records] == [
        f"cannot write {blocked / 'events.jsonl'}: File exists; rows wait for room",
        "rows are written again, dropped=3",
    ]


def test_rows_that_are_left_at_the_end_are_said(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    blocked = tmp_path / "blocked"
    blocked.write_text("a file where a folder should be")
    writer = BackgroundWriter(interval_seconds=3600)
    writer.add(blocked / "events.jsonl", {"n": 1})
    writer.close()
    assert caplog.records[-1].message == "1 rows could not be written, dropped=0"


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")  # newer Pythons warn of what this is about
def test_a_worker_that_was_forked_writes_its_own_and_not_its_parents(tmp_path: Path) -> None:
    writer = BackgroundWriter(interval_seconds=3600)
    writer.add(tmp_path / "events.jsonl", {"from": "parent"})
    child = os.fork()
    if child == 0:
        writer.add(tmp_path / "events.jsonl", {"from": "child"})
        writer.close()
        os._exit(0)
    os.waitpid(child, 0)
    writer.close()
    assert (tmp_path / "events.jsonl").read_text() == '{"from":"child"}\n{"from":"parent"}\n'
