"""Pushes metrics to an OTLP receiver, in a thread: an unreachable receiver does not delay the sampler.

The receiver is named by a flag or OpenTelemetry's variables. Secrets come from variables only.
"""

from __future__ import annotations

import email.utils
import gzip
import random
import ssl
import threading
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from http.client import HTTPException
from time import monotonic
from typing import NamedTuple, Protocol, TypeAlias
from urllib.error import HTTPError, URLError
from urllib.parse import unquote, urlsplit
from urllib.request import (
    HTTPDefaultErrorHandler,
    HTTPErrorProcessor,
    HTTPHandler,
    HTTPSHandler,
    OpenerDirector,
    ProxyHandler,
    Request,
)

from gpulake import __version__
from gpulake.collect.live.encoding import encode, rejected
from gpulake.collect.live.metrics import MOST_PROCESS_SERIES, families
from gpulake.collect.live.state import State
from gpulake.core.errors import ConfigError
from gpulake.formats.names import table

PATH = "/v1/metrics"
TIMEOUT_SECONDS = 10.0


class Failure(NamedTuple):
    reason: str
    is_permanent: bool
    wait_seconds: float | None  # requested by the receiver


Send: TypeAlias = Callable[[bytes], tuple[Failure | None, bytes]]  # what is packed with gzip; and what was answered


class Target(Protocol):
    """Where metrics are pushed to."""

    @property
    def host(self) -> str: ...
    @property
    def timeout_seconds(self) -> float: ...
    def sender(self) -> Send: ...


@dataclass(frozen=True)
class Receiver:
    url: str
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)  # they may be secret
    ca_file: str = ""
    timeout_seconds: float = TIMEOUT_SECONDS

    @property
    def host(self) -> str:
        """For messages: a path may contain a token."""
        parts = urlsplit(self.url)
        return f"{parts.scheme}://{parts.netloc}"

    def sender(self) -> Send:
        return partial(_post, _opener(self), self)


def find_receiver(given: str, environment: Mapping[str, str]) -> Receiver | None:
    """The configured receiver; None: nothing is pushed."""
    whole = environment.get("OTEL_EXPORTER_OTLP_METRICS_ENDPOINT", "")
    base = environment.get("OTEL_EXPORTER_OTLP_ENDPOINT", "")
    if given:
        url, origin = _with_path(given), "--otlp"
    elif _is_off(environment):
        return None
    elif whole:
        url, origin = whole, "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT"
    elif base:
        url, origin = _with_path(base), "OTEL_EXPORTER_OTLP_ENDPOINT"
    else:
        return None
    _check(url, origin)
    return Receiver(
        url=url,
        headers=_headers(environment),
        ca_file=environment.get("OTEL_EXPORTER_OTLP_CERTIFICATE", ""),
        timeout_seconds=_timeout(environment),
    )


def _is_off(environment: Mapping[str, str]) -> bool:
    """Whether the variables, which apply to every program on this host, exclude our metrics."""
    protocol = environment.get("OTEL_EXPORTER_OTLP_METRICS_PROTOCOL") or environment.get("OTEL_EXPORTER_OTLP_PROTOCOL")
    is_disabled = environment.get("OTEL_SDK_DISABLED", "").lower() == "true"
    exporters = (environment.get("OTEL_METRICS_EXPORTER") or "otlp").replace(" ", "").split(",")
    return is_disabled or "otlp" not in exporters or protocol == "grpc"


def _with_path(url: str) -> str:
    return url if url.rstrip("/").endswith(PATH) else url.rstrip("/") + PATH


def _check(url: str, origin: str) -> None:
    if "@" in url.partition("://")[2].partition("/")[0]:
        raise ConfigError(f"{origin} has a user or password in it", "put credentials into OTEL_EXPORTER_OTLP_HEADERS")
    try:
        parts = urlsplit(url)
        is_valid = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        is_valid = False
    if not is_valid or not url.isascii() or not url.isprintable() or " " in url:
        raise ConfigError(f"{origin} is {url!r}", "use http://HOST:4318 or https://HOST")


def _headers(environment: Mapping[str, str]) -> dict[str, str]:
    name = "OTEL_EXPORTER_OTLP_METRICS_HEADERS"
    if not environment.get(name):
        name = "OTEL_EXPORTER_OTLP_HEADERS"
    found = {}
    for part in environment.get(name, "").split(","):
        if not part.strip():
            continue
        key, equals, value = part.partition("=")
        key, value = key.strip(), unquote(value.strip())
        if not equals or not key.replace("-", "").replace("_", "").isalnum() or not f"{key}{value}".isascii():
            raise ConfigError(f"{name} does not parse", "use key=value, with commas between")  # and is not repeated
        if not value.isprintable():
            raise ConfigError(f"the value of {key} in {name} has control characters", "leave them out")
        found[key] = value
    return found


def _timeout(environment: Mapping[str, str]) -> float:
    name = "OTEL_EXPORTER_OTLP_TIMEOUT"
    text = environment.get(name, "")
    if not text:
        return TIMEOUT_SECONDS
    if not text.isascii() or not text.isdecimal() or int(text) == 0:
        raise ConfigError(f"{name} is {text!r}", "use milliseconds, such as 10000")
    return int(text) / 1000


EVERY_SECONDS = 15.0
MOST_QUEUED = 20  # five minutes
RETRY_STATUSES = frozenset({429, 502, 503, 504})
LEAST_WAIT_SECONDS = 1.0
MOST_WAIT_SECONDS = 60.0
MOST_ANSWER_BYTES = 64 << 10
LAST_SECONDS = 5.0  # for the rest of the queue when the collector ends


class _Message(NamedTuple):
    body: bytes
    points: int


class Pusher:
    """Sends the state at an interval, until it is closed."""

    def __init__(
        self,
        state: State,
        receiver: Target,
        *,
        every_seconds: float = EVERY_SECONDS,
        names: str = "dcgm",
        most_processes: int = MOST_PROCESS_SERIES,
        say: Callable[[str], None] = lambda _: None,
    ) -> None:
        if not every_seconds > 0:
            raise ConfigError(f"metrics are to be pushed every {every_seconds:g} seconds", "use a number above 0")
        self._state = state
        self._receiver = receiver
        self._every_seconds = every_seconds
        self._names = table(names)
        self._most_processes = most_processes
        self._say = say
        self._send = receiver.sender()
        self._queue: deque[_Message] = deque()
        self._counts = {"points_sent_total": 0, "points_dropped_total": 0, "requests_failed_total": 0}
        self._failures = 0  # in a row
        self._last_message = ""
        self._is_closing = threading.Event()
        self._thread = threading.Thread(target=self._run, name="gpulake-otlp", daemon=True)
        state.pushed(self._counts)
        self._thread.start()

    def close(self) -> None:
        """Sends the rest of the queue, if the receiver accepts it at once."""
        self._is_closing.set()
        self._thread.join(LAST_SECONDS + self._receiver.timeout_seconds)

    def _run(self) -> None:
        due = monotonic() + self._every_seconds
        again = 0.0
        while not self._is_closing.wait(max(0.0, min(due, again if self._queue else due) - monotonic())):
            if monotonic() >= due:
                due += self._every_seconds * max(1.0, (monotonic() - due) // self._every_seconds + 1)
                self._collect()
            if monotonic() >= again:
                again = monotonic() + self._send_all()
        self._collect()
        end = monotonic() + LAST_SECONDS
        while self._queue and self._send_first() is None and monotonic() < end:
            pass
        self._drop(len(self._queue), "the collector ended")

    def _collect(self) -> None:
        snapshot = self._state.snapshot()
        if snapshot is None or not snapshot.is_fresh:
            return
        body, points = encode(snapshot, families(snapshot, self._names, most_processes=self._most_processes))
        self._queue.append(_Message(gzip.compress(body, 1, mtime=0), points))
        if len(self._queue) > MOST_QUEUED:
            self._drop(1, "there are too many to keep")

    def _send_all(self) -> float:
        """Seconds until the next try."""
        while self._queue and not self._is_closing.is_set():
            failure = self._send_first()
            if failure is None:
                continue
            if failure.is_permanent:
                self._drop(1, failure.reason)
                continue
            self._say_once(f"{self._receiver.host} does not take metrics, and is tried again: {failure.reason}")
            if failure.wait_seconds is not None:
                return min(failure.wait_seconds, 10 * MOST_WAIT_SECONDS)
            most = min(MOST_WAIT_SECONDS, LEAST_WAIT_SECONDS * 2.0 ** min(self._failures - 1, 10))
            return random.uniform(most / 2, most)  # jitter: not all nodes of a cluster at once
        return 0.0

    def _send_first(self) -> Failure | None:
        message = self._queue[0]
        failure, answer = self._send(message.body)
        if failure is not None:
            self._failures += 1
            self._counts["requests_failed_total"] += 1
        else:
            self._queue.popleft()
            self._failures = 0
            refused, reason = rejected(answer)
            refused = min(max(0, refused), message.points)
            self._counts["points_sent_total"] += message.points - refused
            self._counts["points_dropped_total"] += refused
            self._say_once(f"{self._receiver.host} did not take {refused} points: {reason[:200]!r}" if refused else "")
        self._state.pushed(self._counts)
        return failure

    def _drop(self, messages: int, reason: str) -> None:
        for _ in range(messages):
            self._counts["points_dropped_total"] += self._queue.popleft().points
        if messages:
            self._say_once(f"metrics for {self._receiver.host} were dropped: {reason}")
            self._state.pushed(self._counts)

    def _say_once(self, message: str) -> None:
        """Reports a message once, until another one."""
        if message and message != self._last_message:
            self._say(message)
        self._last_message = message


def _opener(receiver: Receiver) -> OpenerDirector:
    """Without handlers for files and redirects: metrics go to the receiver only."""
    try:
        context = ssl.create_default_context(cafile=receiver.ca_file or None)
    except OSError as error:
        hint = "check OTEL_EXPORTER_OTLP_CERTIFICATE"
        raise ConfigError(f"{receiver.ca_file} cannot be used to verify the receiver: {error}", hint) from error
    opener = OpenerDirector()
    for handler in (
        ProxyHandler(),
        HTTPHandler(),
        HTTPSHandler(context=context),
        HTTPDefaultErrorHandler(),
        HTTPErrorProcessor(),
    ):
        opener.add_handler(handler)
    return opener


def _post(opener: OpenerDirector, receiver: Receiver, body: bytes) -> tuple[Failure | None, bytes]:
    headers = {
        "Content-Type": "application/json",
        "Content-Encoding": "gzip",
        "User-Agent": f"gpulake/{__version__}",
    }
    request = Request(receiver.url, data=body, headers=dict(receiver.headers) | headers, method="POST")  # noqa: S310
    try:
        with opener.open(request, timeout=receiver.timeout_seconds) as answer:
            return None, answer.read(MOST_ANSWER_BYTES)
    except HTTPError as error:
        with error:
            is_permanent = error.code not in RETRY_STATUSES
            return Failure(f"HTTP {error.code}", is_permanent, _retry_after(error.headers.get("Retry-After", ""))), b""
    except (URLError, HTTPException, OSError) as error:
        return Failure(str(getattr(error, "reason", error) or type(error).__name__), False, None), b""


def _retry_after(text: str) -> float | None:
    """Seconds, from a number or a date."""
    if text.isascii() and text.isdecimal():
        return float(text)
    try:
        at = email.utils.parsedate_to_datetime(text)
    except ValueError:
        return None
    return max(0.0, ((at if at.tzinfo else at.replace(tzinfo=UTC)) - datetime.now(UTC)).total_seconds())
