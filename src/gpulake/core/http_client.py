"""Requests to one server: no redirects, no proxies, one deadline, bounded answers, retries with back-off.

Error messages show the server's address, which holds no secrets (`check_url`), and never a header.
"""

from __future__ import annotations

import base64
import http.client
import json
import random
import socket
import ssl
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from pathlib import Path
from threading import Event, Timer
from typing import IO
from urllib.parse import urlencode, urlsplit

from gpulake import __version__
from gpulake.core.errors import ConfigError, PullError

CHUNK_BYTES = 1 << 18
MOST_ERROR_BYTES = 1 << 16
MOST_ANSWER_BYTES = 512 << 20
MOST_WORDS = 200
PASSING_STATUSES = {408, 425, 429, 500, 502, 503, 504}
LONGEST_WAIT_SECONDS = 60.0
NETWORK_ERRORS = (OSError, http.client.HTTPException, ValueError)


class RefusedError(PullError):
    """The server answered with a status that is not 2xx."""

    def __init__(self, message: str, hint: str, status: int, body: bytes, retry_after_seconds: float) -> None:
        super().__init__(message, hint)
        self.status = status
        self.body = body
        self.retry_after_seconds = retry_after_seconds


class LateError(PullError):
    """No whole answer within the deadline."""


class CutError(PullError):
    """No connection, or one that was cut before the end of the answer."""


class TooLargeError(PullError):
    """The answer is larger than allowed."""


@contextmanager
def connection_to(
    url: str, seconds: float, context: ssl.SSLContext | None = None
) -> Iterator[http.client.HTTPConnection]:
    """A connection that is shut down after so many seconds: a TimeoutError.

    The socket's own timeout is for each read: a server that sends a byte at a time would never end.
    """
    parts = urlsplit(url)
    host = parts.hostname or ""
    connection = (
        http.client.HTTPSConnection(host, parts.port, timeout=seconds, context=context or ssl.create_default_context())
        if parts.scheme == "https"
        else http.client.HTTPConnection(host, parts.port, timeout=seconds)
    )
    is_late = Event()
    # The connection itself forgets its socket once an answer begins after which the server closes.
    opened: list[socket.socket] = []
    end = Timer(seconds, _shut_down, (opened, is_late))
    end.daemon = True
    end.start()
    try:
        connection.connect()
        opened.append(connection.sock)
        yield connection
        if is_late.is_set():
            raise TimeoutError  # an answer without a length just ends
    except (OSError, http.client.HTTPException) as error:
        # What the reader of a socket sees that was shut down is a matter of chance: an end, or a reset.
        raise (TimeoutError() if is_late.is_set() else error) from None
    finally:
        end.cancel()
        connection.close()


def _shut_down(opened: list[socket.socket], is_late: Event) -> None:
    is_late.set()
    for connected in opened:
        with suppress(OSError):
            connected.shutdown(socket.SHUT_RDWR)


def connection_failure(error: Exception, seconds: float) -> str:
    """Why there is no answer, in words."""
    if isinstance(error, TimeoutError):
        return f"no answer within {seconds:g} seconds"
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"no safe connection: its certificate does not verify: {error.verify_message}"
    if isinstance(error, ssl.SSLError):
        return f"no safe connection: {error.reason or type(error).__name__}"
    if isinstance(error, http.client.IncompleteRead):
        return "the answer was cut short"
    if isinstance(error, OSError) and error.strerror:
        return f"no connection: {error.strerror}"
    return f"no answer that could be read ({type(error).__name__})"


def retry_after(value: str | None) -> float:
    return float(value) if value is not None and value.isdecimal() else 0.0


def tls_context(ca_file: Path | None) -> ssl.SSLContext:
    try:
        return ssl.create_default_context(cafile=str(ca_file) if ca_file else None)
    except (OSError, ssl.SSLError) as error:
        reason = error.strerror or "it holds no certificate"
        raise ConfigError(f"cannot read the certificates in {ca_file}: {reason}", "give a PEM file") from error


def authorization(environment: Mapping[str, str], prefix: str) -> dict[str, str]:
    """The header from PREFIX_TOKEN, or from PREFIX_USER and PREFIX_PASSWORD; none where none is set."""
    token, user = (environment.get(f"{prefix}_{word}", "").strip() for word in ("TOKEN", "USER"))
    password = environment.get(f"{prefix}_PASSWORD", "")
    if token and user:
        raise ConfigError(f"{prefix}_TOKEN and {prefix}_USER are both set", "unset one of them")
    if not f"{token}{user}{password}".isprintable():
        raise ConfigError(f"{prefix}_TOKEN, _USER or _PASSWORD holds a control character", "set it again")
    if token:
        return {"Authorization": f"Bearer {token}"}
    if user:
        return {"Authorization": "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()}
    return {}


@dataclass(frozen=True)
class Answer:
    headers: Mapping[str, str]  # by their names in lower case
    body: bytes  # empty where it was saved as a file
    size_bytes: int

    @property
    def server_time(self) -> datetime | None:
        """What the server's clock shows, by its header Date."""
        try:
            at = parsedate_to_datetime(self.headers.get("date", ""))
        except ValueError:
            return None
        return at if at.tzinfo else at.replace(tzinfo=UTC)


@dataclass(frozen=True)
class HttpClient:
    url: str  # the base: scheme, host and the path before those of the requests
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    context: ssl.SSLContext | None = None
    timeout_seconds: float = 60.0  # for a whole answer
    tries: int = 5
    most_bytes: int = MOST_ANSWER_BYTES
    wait: Callable[[float], object] = time.sleep
    is_passing: Callable[[RefusedError], bool] = lambda refusal: refusal.status in PASSING_STATUSES

    def ask(
        self, path: str, parameters: Mapping[str, str] | None = None, file: Path | None = None, is_posted: bool = False
    ) -> Answer:
        """The answer of a request without side effects, in memory or as a file; its parameters in the URL or posted."""
        for attempt in range(1, self.tries + 1):
            try:
                return self._once(path, parameters or {}, file, is_posted)
            except (RefusedError, CutError) as error:
                if attempt == self.tries or (isinstance(error, RefusedError) and not self.is_passing(error)):
                    raise
                asked = error.retry_after_seconds if isinstance(error, RefusedError) else 0.0
                # Jitter: many clients that a restart cut off do not come back at the same moment.
                back_off = 2.0 ** (attempt - 1) * random.uniform(0.5, 1.0)
                self.wait(min(max(back_off, asked), LONGEST_WAIT_SECONDS))
        raise AssertionError("unreachable")

    def _once(self, path: str, parameters: Mapping[str, str], file: Path | None, is_posted: bool) -> Answer:
        query = urlencode(parameters)
        target = urlsplit(self.url).path.rstrip("/") + path + (f"?{query}" if query and not is_posted else "")
        headers = {"User-Agent": f"gpulake/{__version__}", "Connection": "close", **self.headers}
        body = None
        if is_posted:
            headers["Content-Type"] = "application/x-www-form-urlencoded"
            body = query.encode()
        try:
            with connection_to(self.url, self.timeout_seconds, self.context) as connection:
                connection.request("POST" if is_posted else "GET", target, body, headers)
                response = connection.getresponse()
                if not 200 <= response.status < 300:
                    raise self._refusal(response)
                found = {name.lower(): value for name, value in response.getheaders()}
                if file is None:
                    content = b"".join(self._chunks(response))
                    return Answer(found, content, len(content))
                with file.open("wb") as saved:
                    return Answer(found, b"", self._save(response, saved))
        except NETWORK_ERRORS as error:
            raise self._failure(error) from None

    def _chunks(self, response: http.client.HTTPResponse) -> Iterator[bytes]:
        size = 0
        expected = response.length  # None where the answer comes in chunks, which have an end of their own
        while chunk := response.read(CHUNK_BYTES):
            size += len(chunk)
            if size > self.most_bytes:
                raise TooLargeError(
                    f"{self.url} answers with more than {self.most_bytes >> 20} MiB", "ask for less at a time"
                )
            yield chunk
        if expected is not None and size < expected:
            raise http.client.IncompleteRead(b"", expected - size)

    def _save(self, response: http.client.HTTPResponse, saved: IO[bytes]) -> int:
        return sum(saved.write(chunk) for chunk in self._chunks(response))

    def _failure(self, error: Exception) -> PullError:
        words = f"{self.url}: {connection_failure(error, self.timeout_seconds)}"
        if isinstance(error, TimeoutError):
            return LateError(words, "ask for less at a time, or give it more time")
        if isinstance(error, ssl.SSLError):
            return PullError(
                words,
                "name the file of your certificate authority with --ca-file, and the server as its certificate does",
            )
        return CutError(
            words, "check the address and that the server runs; the same command resumes where this one stopped"
        )

    def _refusal(self, response: http.client.HTTPResponse) -> RefusedError:
        body = response.read(MOST_ERROR_BYTES)
        said = _said(body)
        status = response.status
        words = f"{self.url} answers {status} {response.reason}"
        # What is not there, or not understood, was asked for wrongly.
        hint = "check the address, and what is asked for" if status in (400, 404, 422) else "look at the server's log"
        if 300 <= status < 400:
            leads_to = urlsplit(response.getheader("Location") or "")
            words += f": a redirect to {leads_to.scheme}://{leads_to.hostname}{leads_to.path}"
            hint = "redirects are not followed; give the address that it leads to"
        elif status in (401, 403):
            hint = "check the token, or the user and the password, in the environment"
        elif said and not said.startswith("<"):
            words += f": {said}"
        return RefusedError(words, hint, status, body, retry_after(response.getheader("Retry-After")))


def _said(body: bytes) -> str:
    """What an answer says of its failure; of JSON, its words only."""
    try:
        error = json.loads(body)["error"]
    except (ValueError, LookupError, TypeError, RecursionError):
        error = None
    text = error if isinstance(error, str) else body.decode(errors="replace")
    return " ".join(text.split())[:MOST_WORDS]
