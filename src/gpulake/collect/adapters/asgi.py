"""Middleware for ASGI services: every request an invocation, traces handed on, requests under way counted.

    app = TracingMiddleware(app, run_dir="runs/night1/web1", module_id="api")
    headers = outgoing_headers()   # within a request: for the calls that it makes

Bodies pass through as they come and are counted. Records are appended by a thread, about a second behind (journal.py).
`cpu_time_ms` is told where it is right: of requests that wait for nobody but their client. Of others, which may have
work done in threads or other tasks, it is none.
"""

from __future__ import annotations

import atexit
import os
import re
from asyncio import CancelledError
from collections.abc import Awaitable, Callable, Iterator, MutableMapping
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

from gpulake.collect.tracing.asgi_request import Message, Metered, PassingRequest, Receive, Send
from gpulake.collect.tracing.invocation import Invocation, PlacementEvent, SystemStat, Times, text_of
from gpulake.collect.tracing.journal import Journal
from gpulake.collect.tracing.place import Place, place_of
from gpulake.collect.tracing.trace_context import TraceContext, context_from
from gpulake.core.clock import Clock, SystemClock

App: TypeAlias = Callable[[MutableMapping[str, Any], Receive, Send], Awaitable[None]]

CURRENT: ContextVar[TraceContext | None] = ContextVar("gpulake_trace", default=None)
CONTAINER = re.compile(r"[0-9a-f]{64}")
QUEUED = re.compile(r"(?:t=)?(\d{9,17}(?:\.\d{1,9})?)", re.ASCII)
LONGEST_QUEUE_MS = 3_600_000  # what claims to have waited longer has a wrong clock
CLIENT_GONE = 499  # as nginx logs it


def outgoing_headers() -> dict[str, str]:
    """For a call that the current request makes: traceparent and the plain ids; empty outside of a request."""
    context = CURRENT.get()
    return context.headers() if context else {}


def current_trace() -> TraceContext | None:
    return CURRENT.get()


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
        self._journal = Journal(interval_seconds=interval_seconds, tick=self._statistics)
        self._service: _Service | None = None
        self._in_flight = 0
        self._told = 0  # of in_flight, last
        atexit.register(self.close)

    async def __call__(self, scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            await self._request(scope, receive, send)
        elif scope["type"] == "lifespan":
            await self._app(scope, receive, self._until_shutdown(send))
        else:
            await self._app(scope, receive, send)

    def flush(self) -> None:
        """All that ended is on the disk."""
        self._journal.flush()

    def close(self) -> None:
        """The service stops: the last records, and its placement's end."""
        if self._service is not None and self._service.pid == os.getpid():
            service, self._service = self._service, None
            self._journal.add(self._place.run.placement_events, self._placement(service, "stop"))
            self._journal.close()

    async def _request(self, scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        service = self._started()
        headers = _headers(scope)
        context = context_from(headers)
        request = PassingRequest(context, self._clock, self._now_ms(), self._clock.elapsed())
        token = CURRENT.set(context)
        self._in_flight += 1
        try:
            asked = self._app(scope, request.counting_receive(receive), request.counting_send(send))
            await Metered(asked, request)
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
        self, service: _Service, scope: MutableMapping[str, Any], headers: dict[str, str], request: PassingRequest
    ) -> None:
        ended = self._clock.elapsed() if request.ended is None else request.ended
        took_ms = max(0.0, (ended - request.began) * 1000)
        began_ms = int(request.began_ms)
        enqueued_ms = _enqueued_ms(headers, began_ms)
        # Cut, not rounded on their own: what lies within another request lies within it in milliseconds, too.
        times = Times(enqueued_ms, began_ms, int(request.began_ms + took_ms))
        queue_time_ms = float(began_ms - enqueued_ms)
        invocation = Invocation(
            trace_id=request.context.trace_id,
            span_id=request.context.span_id,
            parent_id=request.context.parent_id,
            module_id=self._module_id,
            instance_id=service.instance_id,
            ts_enqueue=times.ts_enqueue,
            ts_start=times.ts_start,
            ts_end=times.ts_end,
            node=self._place.node,
            stage=self._place.stage,
            method=text_of(scope.get("method", "")),
            path=text_of(scope.get("path", "")),
            bytes_in=request.bytes_in,
            bytes_out=request.bytes_out,
            cpu_time_ms=None if request.has_waited else round(request.cpu_ns / 1e6, 3),
            queue_time_ms=queue_time_ms,
            service_time_ms=round(took_ms, 3),
            rt_ms=round(queue_time_ms + took_ms, 3),
            status=request.status if request.is_answered else 500,
            pid=service.pid,
            host_id=self._place.host_id,
            proc_id=service.proc_id,
        )
        self._journal.add(self._place.run.events("asgi", service.pid), invocation)

    def _until_shutdown(self, send: Send) -> Send:
        async def told(message: Message) -> None:
            if message["type"] == "lifespan.startup.complete":
                self._started()
            await send(message)
            if message["type"] in ("lifespan.shutdown.complete", "lifespan.shutdown.failed"):
                self.close()

        return told

    def _started(self) -> _Service:
        """The service in this process; a worker that was forked is another one."""
        if self._service is None or self._service.pid != os.getpid():
            self._service = _service(self._place)
            self._in_flight = self._told = 0
            self._journal.add(self._place.run.placement_events, self._placement(self._service, "start"))
        return self._service

    def _statistics(self) -> Iterator[tuple[Path, object]]:
        """In flight now. Where nothing is under way and that was told, there is nothing to tell."""
        service, value = self._service, self._in_flight
        if service is None or (value == 0 and self._told == 0):
            return
        self._told = value
        yield (
            self._place.run.system_stats,
            SystemStat(
                ts_ms=int(self._now_ms()),
                node=self._place.node,
                stage=self._place.stage,
                metric="in_flight",
                value=value,
                instance_id=service.instance_id,
                host_id=self._place.host_id,
            ),
        )

    def _placement(self, service: _Service, event: str) -> PlacementEvent:
        return PlacementEvent(
            ts=int(self._now_ms()),
            app_id=self._app_id,
            module_id=self._module_id,
            instance_id=service.instance_id,
            node_id=self._place.node,
            event=event,
            stage=self._place.stage,
            host_id=self._place.host_id,
            pid=service.pid,
        )

    def _now_ms(self) -> float:
        return self._clock.now().timestamp() * 1000


@dataclass(frozen=True)
class _Service:
    pid: int
    instance_id: str
    proc_id: str | None


def _service(place: Place) -> _Service:
    """This process: by the container that it is in, and its pid, since a container may have several."""
    pid = os.getpid()
    cgroup, stat = (_read(Path("/proc/self") / name) for name in ("cgroup", "stat"))
    container = CONTAINER.search(cgroup)
    fields = stat.rpartition(")")[2].split()
    return _Service(
        pid=pid,
        instance_id=f"{container[0][:12]}-{pid}" if container else f"pid-{pid}",
        proc_id=f"{place.boot_id}-{fields[19]}-{pid}" if len(fields) > 19 else None,
    )


def _headers(scope: MutableMapping[str, Any]) -> dict[str, str]:
    """By name in lower case; of a header that stands twice, both, which makes an id invalid and a state longer."""
    found: dict[str, str] = {}
    for name, value in scope.get("headers", ()):
        key, text = name.decode("latin-1").lower(), value.decode("latin-1")
        found[key] = f"{found[key]},{text}" if key in found else text
    return found


def _enqueued_ms(headers: dict[str, str], began_ms: int) -> int:
    """As a proxy before us told it, in seconds, milliseconds or microseconds; not after we began, nor long before."""
    told = QUEUED.fullmatch(headers.get("x-request-start") or headers.get("x-queue-start", ""))
    if not told:
        return began_ms
    number = float(told[1])
    factor = 1000.0 if number < 1e11 else 1.0 if number < 1e14 else 0.001
    enqueued_ms = round(number * factor)
    return enqueued_ms if 0 <= began_ms - enqueued_ms <= LONGEST_QUEUE_MS else began_ms


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
