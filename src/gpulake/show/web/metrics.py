"""Metrics for Prometheus: of the lake, and of this server."""

from __future__ import annotations

import resource
import threading
import time
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from math import isfinite
from pathlib import Path
from typing import Any

from fastapi import APIRouter, Request, Response
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from gpulake import __version__
from gpulake.formats.prometheus import TEXT, help_text, labels_text
from gpulake.show.web.answers import MOST_ROWS, Answers, Asked
from gpulake.show.web.api import viewer_of
from gpulake.show.web.events import Events
from gpulake.show.web.gauges import GAUGES, Gauge
from gpulake.show.web.viewers import LOCAL

BOUNDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
# One series for each family of routes: there are hundreds of routes.
FAMILIES = ("/api/v1/", "/panels/", "/rows/", "/static/")
LISTENING = "/api/v1/events"  # lasts as long as a page is open

Sample = tuple[str, Mapping[str, str], float]


@dataclass
class Requests:
    """Counts and durations of requests."""

    counts: Counter[tuple[str, str, int]] = field(default_factory=Counter)
    buckets: dict[str, list[int]] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def note(self, route: str, method: str, status: int, seconds: float) -> None:
        with self._lock:
            self.counts[route, method, status] += 1
            counted = self.buckets.setdefault(route, [0] * (len(BOUNDS) + 1))
            counted[bisect_left(BOUNDS, seconds)] += 1
            self.seconds[route] = self.seconds.get(route, 0.0) + seconds

    def families(self) -> Iterator[str]:
        with self._lock:
            counts, seconds = dict(self.counts), dict(self.seconds)
            buckets = {route: list(counted) for route, counted in self.buckets.items()}
        name = "gpulake_serve_requests_total"
        samples: list[Sample] = [
            (name, {"route": route, "method": method, "status": str(status)}, count)
            for (route, method, status), count in sorted(counts.items())
        ]
        yield from _family(name, "counter", "Requests that were answered.", samples)
        name = "gpulake_serve_request_duration_seconds"
        yield from _family(
            name,
            "histogram",
            "From a request to the end of its answer.",
            (
                sample
                for route, counted in sorted(buckets.items())
                for sample in _histogram(name, route, counted, seconds[route])
            ),
        )


def _histogram(name: str, route: str, counts: list[int], seconds: float) -> Iterator[Sample]:
    total = 0
    for bound, count in zip((*BOUNDS, float("inf")), counts, strict=True):
        total += count
        yield f"{name}_bucket", {"route": route, "le": "+Inf" if bound == float("inf") else f"{bound:g}"}, total
    yield f"{name}_sum", {"route": route}, seconds
    yield f"{name}_count", {"route": route}, total


@dataclass
class Measured:
    """Around the whole application, the guard included."""

    app: ASGIApp
    requests: Requests

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["path"] == LISTENING:
            await self.app(scope, receive, send)
            return
        begin, status = time.perf_counter(), 500

        async def sending(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            await self.app(scope, receive, sending)
        finally:
            route = route_of(scope, status)
            self.requests.note(route, _method(scope["method"]), status, time.perf_counter() - begin)


def route_of(scope: Mapping[str, Any], status: int) -> str:
    """One of a few names: a path that a client makes up must not become a series."""
    path = str(scope["path"])
    for family in FAMILIES:
        if path.startswith(family) and status != 404:
            kind = path.rpartition(".")[2] if path.endswith((".csv", ".parquet")) else ""
            return f"{family}{{name}}" + (f".{kind}" if kind else "")
    return str(getattr(scope.get("route"), "path", "")) or "none"


def _method(method: str) -> str:
    return method if method in ("GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS") else "other"


def router(answers: Answers, events: Events, requests: Requests) -> APIRouter:
    routes = APIRouter(include_in_schema=False)

    @routes.get("/metrics")
    def page(request: Request) -> Response:
        if viewer_of(request).is_limited:
            raise HTTPException(403, "metrics include everyone's jobs")
        lines = [*_lake(answers), *requests.families(), *_server(events)]
        return Response("\n".join([*lines, ""]), headers={"Content-Type": TEXT})

    return routes


def _lake(answers: Answers) -> Iterator[str]:
    now = time.time()
    for gauge in GAUGES:
        samples = list(_samples(answers, gauge))
        yield from _family(gauge.name, gauge.kind, gauge.help, samples)
        if gauge.name.endswith(("build_timestamp_seconds", "data_timestamp_seconds")):
            # For people who look at a number; an alert would subtract the timestamp from the time.
            name = gauge.name.replace("_timestamp_", "_age_")
            ages = [(name, labels, now - value) for _, labels, value in samples]
            yield from _family(name, "gauge", "Seconds since then. " + gauge.help, ages)


def _samples(answers: Answers, gauge: Gauge) -> Iterator[Sample]:
    """A missing table or value gives no sample; zero gives one."""
    for row in answers.ask(Asked(gauge.question, {}, LOCAL, MOST_ROWS)).rows:
        for name, labels, value in gauge.samples(row):
            if value is not None and isfinite(value):
                yield name, labels, float(value)


def _server(events: Events) -> Iterator[str]:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    yield from _family(
        "gpulake_serve_info", "gauge", "The version that serves.", [("gpulake_serve_info", {"version": __version__}, 1)]
    )
    for name, kind, words, value in (
        ("gpulake_serve_listeners", "gauge", "Open pages that wait for news.", float(events.clients.total())),
        ("process_cpu_seconds_total", "counter", "Processor time of the server.", usage.ru_utime + usage.ru_stime),
        ("process_resident_memory_bytes", "gauge", "Resident memory of the server.", _resident()),
    ):
        yield from _family(name, kind, words, [(name, {}, value)])


def _resident() -> float:
    try:
        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    except (OSError, ValueError, IndexError):  # not Linux: its peak
        return float(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024)
    return float(pages * resource.getpagesize())


def _family(name: str, kind: str, words: str, samples: Iterable[Sample]) -> Iterator[str]:
    lines = [f"{one}{labels_text(tuple(labels.items()))} {_number(value)}" for one, labels, value in samples]
    if lines:
        yield f"# HELP {name} {help_text(words)}"
        yield f"# TYPE {name} {kind}"
        yield from lines


def _number(value: float) -> str:
    return str(int(value)) if float(value).is_integer() and abs(value) < 2**53 else repr(float(value))
