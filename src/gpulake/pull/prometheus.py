"""The history that a Prometheus-compatible server keeps, as answers of query_range.

Times are multiples of the step, so that a time that is asked for again gives the same rows. An answer holds all series
of its window; how long a window is follows from how many series there are, and it is halved where the server refuses.
"""

from __future__ import annotations

import json
import math
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from gpulake.core.addresses import check_url
from gpulake.core.clock import Clock
from gpulake.core.errors import PullError, require
from gpulake.core.http_client import (
    Answer,
    HttpClient,
    LateError,
    RefusedError,
    TooLargeError,
    authorization,
    tls_context,
)
from gpulake.formats.names import pulled_names
from gpulake.pull import PULLS, Desk, Piece, Span

PREFIX = "GPULAKE_PROMETHEUS"
MOST_POINTS = 11_000  # of a series in one answer: the server's own limit
MOST_SAMPLES = 2_000_000  # of an answer, about: 60 MB of JSON
MOST_CLOCK_SECONDS = 60.0
# Thanos and VictoriaMetrics would leave out what a part of theirs cannot read, and say so only in passing.
WHOLE = {"partial_response": "false", "deny_partial_response": "1"}
HEAD_BYTES = 4096
SUCCESS = re.compile(rb'\s*\{\s*"status"\s*:\s*"success"')
EMPTY = re.compile(rb'[^\[]*"result"\s*:\s*\[\s*\]')
# What the server says where a shorter window may do: too slow, or too many samples or points.
SPLITTING = ("timeout", "canceled", "execution")
PASSING_STATUSES = {408, 425, 429, 500, 502, 503, 504}


@dataclass(frozen=True)
class Window:
    """Steps of the grid, by their numbers: from `first` to `last`, both included."""

    first: int
    last: int

    @property
    def steps(self) -> int:
        return self.last - self.first + 1


@PULLS.register("prometheus")
@dataclass(frozen=True)
class PrometheusPull:
    url: str
    step: timedelta = timedelta(seconds=30)
    match: str = ""
    ca_file: Path | None = None
    timeout_seconds: float = 120.0
    environment: Mapping[str, str] = field(default_factory=lambda: os.environ, repr=False)
    most_samples: int = MOST_SAMPLES
    name: str = "prometheus"

    def __post_init__(self) -> None:
        hint = f"secrets come from {PREFIX}_TOKEN, or {PREFIX}_USER and {PREFIX}_PASSWORD"
        check_url("--url", self.url, "https://prometheus.example:9090", hint)
        require(self.step >= timedelta(seconds=1), f"a step of {self.step} is too short", "give 1s or more")
        require(not self.step.microseconds, f"a step of {self.step} is no whole second", "give whole seconds")

    @property
    def address(self) -> str:
        return self.url.rstrip("/")

    @property
    def scope(self) -> str:
        return self.match

    @property
    def overlap(self) -> timedelta:
        """Scrapes that were under way, and what a remote writer delivers late."""
        return max(timedelta(minutes=5), 2 * self.step)

    @property
    def selector(self) -> str:
        return self.match or f'{{__name__=~"{"|".join(pulled_names())}"}}'

    def pieces(self, span: Span, desk: Desk) -> Iterator[Piece]:
        return _Pulling(self, self.client(desk), desk).pieces(span)

    def client(self, desk: Desk) -> HttpClient:
        return HttpClient(
            self.address,
            authorization(self.environment, PREFIX),
            tls_context(self.ca_file) if self.url.startswith("https:") else None,
            self.timeout_seconds,
            wait=desk.wait,
            is_passing=lambda refusal: refusal.status in PASSING_STATUSES and _error_of(refusal) not in SPLITTING,
        )


@dataclass(frozen=True)
class _Pulling:
    source: PrometheusPull
    client: HttpClient
    desk: Desk

    @property
    def step_seconds(self) -> int:
        return int(self.source.step.total_seconds())

    def pieces(self, span: Span) -> Iterator[Piece]:
        """Each covers whole steps of the grid; what is not a whole step yet is left for the next pull."""
        check_clock(self.client, self.desk.clock)
        seconds = self.step_seconds
        at = math.ceil(span.since.timestamp() / seconds)
        end = math.ceil(span.until.timestamp() / seconds) - 1
        most = MOST_POINTS
        while at <= end:
            window = Window(at, min(end, at + self._fitting_steps(at, min(end, at + most - 1)) - 1))
            try:
                file = self._save(window)
            except (LateError, TooLargeError, RefusedError) as error:
                if window.steps == 1 or not _is_split(error):
                    raise
                most = window.steps // 2
                continue
            yield Piece(Span(self._time(window.first), self._time(window.last + 1)), (file,) if file else ())
            at = window.last + 1
            most = min(2 * most, MOST_POINTS)  # what was too much for the server need not stay so

    def _fitting_steps(self, first: int, last: int) -> int:
        """How many steps fit into an answer, by the series that there are at either end."""
        series = max(self._series(first), self._series(last), 1)
        require_pull(
            series <= self.source.most_samples,
            f"{series:,} series match at {self.client.url}, more than the {self.source.most_samples:,} of an answer",
            "ask for fewer with --match, one cluster or exporter at a time",
        )
        return max(1, min(last - first + 1, self.source.most_samples // series))

    def _series(self, step: int) -> int:
        parameters = {"query": f"count({self.source.selector})", "time": str(step * self.step_seconds)}
        answer = self.client.ask("/api/v1/query", parameters, is_posted=True)
        result = _data(self.client.url, answer).get("result", [])
        try:
            return int(result[0]["value"][1]) if result else 0
        except (LookupError, TypeError, ValueError):
            raise _no_prometheus(self.client.url) from None

    def _save(self, window: Window) -> Path | None:
        """The answer as a file; None where it holds no series."""
        first, last = (step * self.step_seconds for step in (window.first, window.last))
        file = self.desk.folder / f"{self._time(window.first):%Y%m%dT%H%M%SZ}_{window.steps}x{self.step_seconds}s.json"
        parameters = {"query": self.source.selector, "start": str(first), "end": str(last)}
        parameters |= {"step": str(self.step_seconds)} | WHOLE
        self.client.ask("/api/v1/query_range", parameters, file, is_posted=True)
        with file.open("rb") as saved:
            head = saved.read(HEAD_BYTES)
        if not SUCCESS.match(head):
            raise _no_prometheus(self.client.url)
        if EMPTY.match(head):
            file.unlink()
            return None
        return file

    def _time(self, step: int) -> datetime:
        return datetime.fromtimestamp(step * self.step_seconds, UTC)


def check_clock(client: HttpClient, clock: Clock) -> None:
    """Asked for before anything else, so that a wrong address is the first thing that is noticed."""
    try:
        answer = client.ask("/api/v1/query", {"query": "time()"}, is_posted=True)
    except RefusedError as error:
        if error.status == 404:
            raise _no_prometheus(client.url) from None
        raise
    _data(client.url, answer)
    there, here = answer.server_time, clock.now()
    off = abs((there - here).total_seconds()) if there else 0.0
    require_pull(
        off <= MOST_CLOCK_SECONDS,
        f"the clock of {client.url} shows {there}, ours {here:%Y-%m-%d %H:%M:%S+00:00}: {off:,.0f} s apart",
        "set the clocks; a pull that rests on a wrong one would miss samples or take them twice",
    )


def require_pull(is_right: bool, message: str, hint: str) -> None:
    if not is_right:
        raise PullError(message, hint)


def _data(url: str, answer: Answer) -> dict[str, Any]:
    try:
        document = json.loads(answer.body)
        data = document["data"] if document["status"] == "success" else None
    except (ValueError, LookupError, TypeError, RecursionError):
        data = None
    if not isinstance(data, dict):
        raise _no_prometheus(url)
    return data


def _no_prometheus(url: str) -> PullError:
    return PullError(
        f"what answers at {url} is no Prometheus", "give the address before /api/v1, such as http://prometheus:9090"
    )


def _error_of(refusal: RefusedError) -> str:
    """The errorType that Prometheus gives, such as timeout."""
    try:
        document = json.loads(refusal.body)
        return str(document["errorType"])
    except (ValueError, LookupError, TypeError, RecursionError):
        return ""


def _is_split(error: PullError) -> bool:
    if not isinstance(error, RefusedError):
        return True
    # A proxy before the server gives up by itself; bad_data is also said of too many points.
    return error.status == 504 or _error_of(error) in SPLITTING or b"maximum resolution" in error.body
