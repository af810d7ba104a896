"""A POST of JSON: no redirects, no proxies, one deadline. Error messages do not show the address."""

from __future__ import annotations

import http.client
import json
import socket
import ssl
from collections.abc import Mapping
from contextlib import suppress
from threading import Event, Timer
from typing import Any
from urllib.parse import urlsplit

from gpulake import __version__
from gpulake.act.sinks import Setup
from gpulake.core.errors import SinkError

MOST_ANSWER_BYTES = 4_096
MOST_WORDS = 120
# The receiver rejected the alert itself: another try would be refused as well.
REFUSED = (400, 413, 415, 422)


def encoded(document: Any) -> bytes:
    return json.dumps(document, separators=(",", ":")).encode()


def post(setup: Setup, url: str, body: bytes, headers: Mapping[str, str]) -> None:
    common = {"Content-Type": "application/json", "User-Agent": f"gpulake/{__version__}", "Connection": "close"}
    if setup.settings.token_variable:
        common["Authorization"] = f"Bearer {setup.secret(setup.settings.token_variable)}"
    try:
        status, retry_after, answer = _answer(url, body, {**common, **headers}, setup.settings.timeout_seconds)
    except (OSError, http.client.HTTPException, ValueError) as error:
        raise setup.failure(_reason(error, setup.settings.timeout_seconds)) from None
    if not 200 <= status < 300:
        raise _refusal(setup, status, retry_after, answer)


def _answer(url: str, body: bytes, headers: Mapping[str, str], seconds: float) -> tuple[int, str | None, str]:
    parts = urlsplit(url)
    host = parts.hostname or ""
    if parts.scheme == "https":
        context = ssl.create_default_context()
        connection = http.client.HTTPSConnection(host, parts.port, timeout=seconds, context=context)
    else:
        connection = http.client.HTTPConnection(host, parts.port, timeout=seconds)  # type: ignore[assignment]
    # The socket's timeout is for each read: a receiver that sends a byte at a time would never end.
    is_late = Event()
    end = Timer(seconds, _shut_down, (connection, is_late))
    end.daemon = True
    end.start()
    try:
        path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        connection.request("POST", path, body, dict(headers))
        response = connection.getresponse()
        answer = response.read(MOST_ANSWER_BYTES).decode(errors="replace")
        return response.status, response.getheader("Retry-After"), answer
    except (OSError, http.client.HTTPException) as error:
        # What the reader of a socket sees that was shut down is a matter of chance: an end, or a reset.
        raise (TimeoutError() if is_late.is_set() else error) from None
    finally:
        end.cancel()
        connection.close()


def _shut_down(connection: http.client.HTTPConnection, is_late: Event) -> None:
    is_late.set()
    with suppress(OSError, AttributeError):
        connection.sock.shutdown(socket.SHUT_RDWR)


def _reason(error: Exception, seconds: float) -> str:
    if isinstance(error, TimeoutError):
        return f"no answer within {seconds:g} seconds"
    if isinstance(error, ssl.SSLError):
        return f"no safe connection: {error.reason or type(error).__name__}"
    if isinstance(error, OSError) and error.strerror:
        return f"no connection: {error.strerror}"
    return f"no answer that could be read ({type(error).__name__})"


def _refusal(setup: Setup, status: int, retry_after: str | None, answer: str) -> SinkError:
    seconds = float(retry_after) if retry_after is not None and retry_after.isdecimal() else None
    words = " ".join(answer.split())[:MOST_WORDS]
    if 300 <= status < 400:
        return setup.failure(f"status {status}: redirects are not followed", hint="give the address that it leads to")
    return setup.failure(
        f"status {status}{f', {words}' if words else ''}", is_final=status in REFUSED, retry_after_seconds=seconds
    )
