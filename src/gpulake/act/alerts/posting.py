"""A POST of JSON: no redirects, no proxies, one deadline. Error messages do not show the address."""

from __future__ import annotations

import http.client
import json
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from gpulake import __version__
from gpulake.act.sinks import Setup
from gpulake.core.errors import SinkError
from gpulake.core.http_client import connection_failure, connection_to

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
        raise setup.failure(connection_failure(error, setup.settings.timeout_seconds)) from None
    if not 200 <= status < 300:
        raise _refusal(setup, status, retry_after, answer)


def _answer(url: str, body: bytes, headers: Mapping[str, str], seconds: float) -> tuple[int, str | None, str]:
    parts = urlsplit(url)
    path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    taken: tuple[int, str | None, str] | None = None
    try:
        with connection_to(url, seconds) as connection:
            connection.request("POST", path, body, dict(headers))
            response = connection.getresponse()
            taken = response.status, response.getheader("Retry-After"), ""
            taken = (*taken[:2], response.read(MOST_ANSWER_BYTES).decode(errors="replace"))
    except (OSError, http.client.HTTPException):
        if taken is None:
            raise
    return taken  # who has said so has taken it, however long it talks on


def _refusal(setup: Setup, status: int, retry_after: str | None, answer: str) -> SinkError:
    seconds = float(retry_after) if retry_after is not None and retry_after.isdecimal() else None
    words = " ".join(answer.split())[:MOST_WORDS]
    if 300 <= status < 400:
        return setup.failure(f"status {status}: redirects are not followed", hint="give the address that it leads to")
    return setup.failure(
        f"status {status}{f', {words}' if words else ''}", is_final=status in REFUSED, retry_after_seconds=seconds
    )
