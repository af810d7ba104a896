"""Middleware for ASGI services: every request is an invocation, traces are propagated, requests in flight are counted.

    app = TracingMiddleware(app, run_dir="runs/night1/web1", module_id="api")
    headers = outgoing_headers()   # within a request: for the calls that it makes

Bodies are streamed through and counted. A thread appends records, about a second behind. `cpu_time_ms` is known only
for requests that wait for nothing but their client: others may use threads or other tasks.
"""

from __future__ import annotations

import atexit
import os
import re
import time
from asyncio import CancelledError
from collections.abc import Awaitable, Callable, Generator, Iterator, MutableMapping
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from types import coroutine
from typing import Any, TypeAlias, TypeVar

from gpulake.collect.machine.procfs import read_text
from gpulake.collect.tracing.appending import BackgroundWriter
from gpulake.collect.tracing.invocation import (
    Place,
    Row,
    Times,
    TraceContext,
    context_from,
    place_of,
    row_of,
    text_of,
)
from gpulake.core.clock import Clock, SystemClock

Message: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[Message]]
Send: TypeAlias = Callable[[Message], Awaitable[None]]
Passed = TypeVar("Passed")
App: TypeAlias = Callable[[MutableMapping[str, Any], Receive, Send], Awaitable[None]]

CURRENT: ContextVar[TraceContext | None] = ContextVar("gpulake_trace", default=None)
CONTAINER = re.compile(r"[0-9a-f]{64}")
QUEUED = re.compile(r"(?:t=)?(\d{9,17}(?:\.\d{1,9})?)", re.ASCII)
LONGEST_QUEUE_MS = 3_600_000  # a longer wait means a wrong clock
CLIENT_GONE = 499  # as nginx logs it


def outgoing_headers() -> dict[str, str]:
    """Headers for calls that the current request makes: traceparent and plain ids; empty outside a request."""
    context = CURRENT.get()
    return context.headers() if context else {}


class TracingMiddleware:
    def __init__(
        self,
        app: App,
        *,
        run_dir: str | Path,
        node: str = "",
        stage: str = "",
        module_id: str = "svc",
        app_id: str = "",
        interval_seconds: float = 1.0,
        clock: Clock | None = None,
    ) -> None:
        self._app = app
        self._place = place_of(Path(run_dir), node=node, stage=stage)
        self._module_id = module_id
        self._app_id = app_id or module_id
        self._clock = clock or SystemClock()
        self._writer = BackgroundWriter(interval_seconds=interval_seconds, tick=self._statistics)
        self._service: _Service | None = None
        self._in_flight = 0
        self._reported = 0  # the last value of in_flight
        atexit.register(self.close)

    async def __call__(self, scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            await self._request(scope, receive, send)
        elif scope["type"] == "lifespan":
            await self._app(scope, receive, self._until_shutdown(send))
        else:
            await self._app(scope, receive, send)

    def flush(self) -> None:
        """Writes all ended requests to the disk."""
        self._writer.flush()

    def close(self) -> None:
        """Writes the last records and the end of the placement."""
        if self._service is not None and self._service.pid == os.getpid():
            service, self._service = self._service, None
            self._writer.add(self._place.run.placement_events, self._placement(service, "stop"))
            self._writer.close()

    async def _request(self, scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        service = self._started()
        headers = _headers(scope)
        context = context_from(headers)
        request = _Request(context, self._clock, self._now_ms(), self._clock.elapsed())
        token = CURRENT.set(context)
        self._in_flight += 1
        try:
            app = self._app(scope, request.counting_receive(receive), request.counting_send(send))
            await _metered(app, request)  # type: ignore[misc] # a generator, made awaitable by its decorator
            request.is_answered = True
        except CancelledError:
            request.status = request.status if request.is_answered else CLIENT_GONE
            request.is_answered = True
            raise
        finally:
            self._in_flight -= 1
            CURRENT.reset(token)
            self._record(service, scope, headers, request)

    def _record(
        self, service: _Service, scope: MutableMapping[str, Any], headers: dict[str, str], request: _Request
    ) -> None:
        ended = self._clock.elapsed() if request.ended is None else request.ended
        took_ms = max(0.0, (ended - request.began) * 1000)
        began_ms = int(request.began_ms)
        enqueued_ms = _enqueued_ms(headers, began_ms)
        # Truncated, not rounded: a request within another one stays within it in milliseconds.
        times = Times(enqueued_ms, began_ms, int(request.began_ms + took_ms))
        queue_time_ms = float(began_ms - enqueued_ms)
        invocation = row_of(
            "invocations",
            trace_id=request.context.trace_id,
            span_id=request.context.span_id,
            parent_id=request.context.parent_id,
            module_id=self._module_id,
            instance_id=service.instance_id,
            **times.columns | {"service_time_ms": round(took_ms, 3), "rt_ms": round(queue_time_ms + took_ms, 3)},
            node=self._place.node,
            stage=self._place.stage,
            method=text_of(scope.get("method", "")),
            path=text_of(scope.get("path", "")),
            bytes_in=request.bytes_in,
            bytes_out=request.bytes_out,
            cpu_time_ms=None if request.has_waited else round(request.cpu_ns / 1e6, 3),
            status=request.status if request.is_answered else 500,
            pid=service.pid,
            host_id=self._place.host_id,
            proc_id=service.proc_id,
        )
        self._writer.add(self._place.run.events("asgi", service.pid), invocation)

    def _until_shutdown(self, send: Send) -> Send:
        async def watched(message: Message) -> None:
            if message["type"] == "lifespan.startup.complete":
                self._started()
            await send(message)
            if message["type"] in ("lifespan.shutdown.complete", "lifespan.shutdown.failed"):
                self.close()

        return watched

    def _started(self) -> _Service:
        """The service in this process; a forked worker is another one."""
        if self._service is None or self._service.pid != os.getpid():
            self._service = _service(self._place)
            self._in_flight = self._reported = 0
            self._writer.add(self._place.run.placement_events, self._placement(self._service, "start"))
        return self._service

    def _statistics(self) -> Iterator[tuple[Path, Row]]:
        """Requests in flight; nothing while the value stays zero."""
        service, value = self._service, self._in_flight
        if service is None or (value == 0 and self._reported == 0):
            return
        self._reported = value
        yield (
            self._place.run.system_stats,
            row_of(
                "system_stats",
                ts_ms=int(self._now_ms()),
                node=self._place.node,
                stage=self._place.stage,
                metric="in_flight",
                value=value,
                instance_id=service.instance_id,
                host_id=self._place.host_id,
            ),
        )

    def _placement(self, service: _Service, event: str) -> Row:
        return self._place.placement(
            event,
            int(self._now_ms()),
            app_id=self._app_id,
            module_id=self._module_id,
            instance_id=service.instance_id,
            pid=service.pid,
        )

    def _now_ms(self) -> float:
        return self._clock.now().timestamp() * 1000


@dataclass
class _Request:
    """Counts of a request while it is served."""

    context: TraceContext
    clock: Clock
    began_ms: float  # by the wall clock
    began: float  # by the clock that cannot be set, seconds
    bytes_in: int = 0
    bytes_out: int | None = 0
    status: int | None = None
    is_answered: bool = False
    ended: float | None = None
    cpu_ns: int = 0
    has_waited: bool = False  # for something else than its client
    is_stepping: bool = False  # its own task runs, and not another on its behalf
    is_with_client: bool = False  # its own task reads from the client or writes to it

    def counting_receive(self, receive: Receive) -> Receive:
        async def counted() -> Message:
            message = await self._with_client(receive())
            self.bytes_in += len(message.get("body", b"")) if message["type"] == "http.request" else 0
            return message

        return counted

    def counting_send(self, send: Send) -> Send:
        async def counted(message: Message) -> None:
            await self._with_client(send(self._seen(message)))

        return counted

    async def _with_client(self, passing: Awaitable[Passed]) -> Passed:
        if not self.is_stepping:
            return await passing
        self.is_with_client = True
        try:
            return await passing
        finally:
            self.is_with_client = False

    def _seen(self, message: Message) -> Message:
        kind = message["type"]
        if kind == "http.response.start":
            self.status = message["status"]
            headers = list(message.get("headers", ()))
            if not any(name.lower() == b"x-trace-id" for name, _ in headers):
                headers.append((b"x-trace-id", self.context.trace_id.encode("ascii", "replace")))
            return {**message, "headers": headers}
        is_file = kind in ("http.response.pathsend", "http.response.zerocopysend")
        if is_file:
            self.bytes_out = None  # the server sends a file itself: its size is unknown here
        elif kind == "http.response.body" and self.bytes_out is not None:
            self.bytes_out += len(message.get("body", b""))
        if (is_file or kind == "http.response.body") and not message.get("more_body", False):
            # Answered: later work of the service does not belong to the request.
            self.is_answered = True
            self.ended = self.clock.elapsed()
        return message


@coroutine
def _metered(app: Awaitable[None], request: _Request) -> Generator[Any, Any, None]:
    """Awaits the app step by step: between two steps other tasks run in the thread."""
    steps: Any = app.__await__()
    step, value = steps.send, None
    while True:
        request.is_stepping = True
        began = time.thread_time_ns()
        try:
            waits_for = step(value)
        except StopIteration:
            return
        finally:
            request.cpu_ns += time.thread_time_ns() - began
            request.is_stepping = False
        if not request.is_with_client:
            request.has_waited = True
        try:
            step, value = steps.send, (yield waits_for)
        except BaseException as error:  # noqa: BLE001 - a cancellation, say: it is the app's
            step, value = steps.throw, error


@dataclass(frozen=True)
class _Service:
    pid: int
    instance_id: str
    proc_id: str | None


def _service(place: Place) -> _Service:
    """This process: by its container and its pid, since a container may have several."""
    pid = os.getpid()
    container = CONTAINER.search(read_text("/proc/self/cgroup"))
    return _Service(
        pid=pid,
        instance_id=f"{container[0][:12]}-{pid}" if container else f"pid-{pid}",
        proc_id=place.proc_id(pid),
    )


def _headers(scope: MutableMapping[str, Any]) -> dict[str, str]:
    """By name in lower case; repeated headers are joined, which makes an id invalid and a state longer."""
    found: dict[str, str] = {}
    for name, value in scope.get("headers", ()):
        key, text = name.decode("latin-1").lower(), value.decode("latin-1")
        found[key] = f"{found[key]},{text}" if key in found else text
    return found


def _enqueued_ms(headers: dict[str, str], began_ms: int) -> int:
    """The time in the header of a proxy, in seconds, milliseconds or microseconds; ignored if later than the start, or
    much earlier."""
    queued = QUEUED.fullmatch(headers.get("x-request-start") or headers.get("x-queue-start", ""))
    if not queued:
        return began_ms
    number = float(queued[1])
    factor = 1000.0 if number < 1e11 else 1.0 if number < 1e14 else 0.001
    enqueued_ms = round(number * factor)
    return enqueued_ms if 0 <= began_ms - enqueued_ms <= LONGEST_QUEUE_MS else began_ms
