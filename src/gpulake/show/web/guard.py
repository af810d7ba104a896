"""The guard: which requests are answered, and for whom."""

from __future__ import annotations

import math
import secrets
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from urllib.parse import urlencode, urlsplit

from fastapi import Request, Response
from fastapi.responses import RedirectResponse
from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from gpulake.core.addresses import address_group, is_address
from gpulake.core.serve_settings import Serve
from gpulake.show.web.errors import HEADERS, error_response, path_of
from gpulake.show.web.sessions import Sessions, Tries, user_of
from gpulake.show.web.viewers import LOCAL, SESSION, Viewer, viewer_named

LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})
EVERY_ADDRESS = frozenset({"0.0.0.0", "::", ""})  # noqa: S104 - what it is called, not what is listened on
LOGIN = "/login"
OPEN_PATHS = (LOGIN, "/static/")  # no login needed
SAFE = frozenset({"GET", "HEAD", "OPTIONS"})
MOST_HEADER = 10_000  # characters of a user and of their groups


@dataclass
class Guard:
    """Who may send requests, and under which host names. Without tokens and proxy every client is local."""

    settings: Serve = field(default_factory=Serve)
    tokens: Mapping[str, str] = field(default_factory=dict)  # token -> user
    proxy_secret: str = ""
    hosts: frozenset[str] | None = None  # None: any host name, where another check stands in front
    any_address: bool = False  # listens on every address of the machine
    now: Callable[[], float] = time.monotonic
    tries: Tries = field(init=False)
    sessions: Sessions = field(init=False)

    def __post_init__(self) -> None:
        self.sessions = Sessions(self.settings.session_hours * 3600)
        self.tries = Tries(self.settings.most_wrong_tokens, self.settings.lockout_seconds)

    @property
    def has_logins(self) -> bool:
        return bool(self.tokens)

    @property
    def is_open(self) -> bool:
        return not self.tokens and not self.settings.proxy_header

    def is_host(self, header: str) -> bool:
        """Whether the Host header names this server: guards against DNS rebinding."""
        if self.hosts is None:
            return True
        try:
            host = (urlsplit(f"//{header}").hostname or "").rstrip(".").lower()
        except ValueError:
            return False
        return host in self.hosts or (self.any_address and is_address(host))

    def viewer(self, request: Request) -> Viewer | None:
        if self.is_open:
            return LOCAL
        if token := bearer_of(request):
            user = self.user_of(request, token)
            return viewer_named(user, self.settings) if user is not None else None
        session = request.cookies.get(SESSION)
        user = self.sessions.user(session, self.now()) if session else None
        return viewer_named(user, self.settings) if user is not None else self._proxied(request)

    def user_of(self, request: Request, token: str) -> str | None:
        """The user of a token. A wrong token counts against the client's address."""
        user = user_of(token, self.tokens)
        if user is None:
            self.tries.fail(self.address_of(request), self.now())
        return user

    def wait_seconds(self, request: Request) -> int:
        """How long the client's address is locked out after too many wrong tokens; 0: it is not."""
        return math.ceil(self.tries.wait_seconds(self.address_of(request), self.now()))

    def address_of(self, request: Request) -> str:
        """Of the client. A proxy appends the address it forwards for; entries before the last can be forged."""
        forwarded = request.headers.get("x-forwarded-for", "")
        has_proxy = bool(self.settings.proxy_header or self.proxy_secret)
        if has_proxy and forwarded and self.is_from_proxy(request):
            return address_group(forwarded.rsplit(",", 1)[-1].strip())
        return address_group(request.client.host if request.client else "")

    def _proxied(self, request: Request) -> Viewer | None:
        """The user whom the reverse proxy authenticated. A header sent twice may be forged, and is ignored."""
        settings = self.settings
        if not settings.proxy_header or not self.is_from_proxy(request):
            return None
        name = _only(request.headers, settings.proxy_header)
        if not name:
            return None
        if not settings.groups_header:
            return viewer_named(name, settings)
        groups = (_only(request.headers, settings.groups_header) or "").split(",")
        return viewer_named(name, settings, frozenset(filter(None, map(str.strip, groups))))

    def is_from_proxy(self, request: Request) -> bool:
        address = request.client.host if request.client else ""
        if not self.settings.trusts(address):
            return False
        given = request.headers.get("x-proxy-secret", "")
        return not self.proxy_secret or secrets.compare_digest(given.encode(), self.proxy_secret.encode())

    def is_https(self, request: Request) -> bool:
        if self.is_from_proxy(request):  # a proxy that only terminates TLS counts, too
            return request.headers.get("x-forwarded-proto", request.url.scheme) == "https"
        return request.url.scheme == "https"


@dataclass(frozen=True)
class Guarded:
    """The application behind the guard. Every response carries the security headers."""

    app: ASGIApp
    guard: Guard

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return

        async def sending(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in {**HEADERS, "Cache-Control": "no-store"}.items():
                    headers.setdefault(name, value)
            await send(message)

        request = Request(scope, receive)
        refusal = self._refusal(request)
        if refusal is not None and _has_body(request):
            refusal.headers["Connection"] = "close"  # the rest of the body is not read
        most = self.guard.settings.most_body_bytes
        await (refusal or self.app)(scope, _bounded(receive, most), sending)

    def _refusal(self, request: Request) -> Response | None:
        host, path = request.headers.get("host", ""), path_of(request)
        most = self.guard.settings.most_body_bytes
        if _is_large(request, most):
            return error_response(request, 413, f"this request has more than {most} bytes", "send less")
        if not self.guard.is_host(host):
            hint = "add it to allowed_hosts in [serve] of gpulake.toml"
            return error_response(request, 421, f"this dashboard is not called {host!r}", hint)
        if request.method not in SAFE and not _is_own(request, host):
            return error_response(
                request, 403, "another site sent this request", "send it from the dashboard's own pages"
            )
        if self.guard.has_logins and bearer_of(request) and (seconds := self.guard.wait_seconds(request)):
            return too_many(request, seconds)
        viewer = self.guard.viewer(request)
        if viewer is None and not path.startswith(OPEN_PATHS):
            return self._unauthenticated(request)
        request.state.viewer = viewer or Viewer("nobody", groups=frozenset())
        return None

    def _unauthenticated(self, request: Request) -> Response:
        path, query = path_of(request), request.url.query
        is_page = request.method == "GET" and not path.startswith(("/api/", "/panels/"))
        if is_page and self.guard.has_logins and "text/html" in request.headers.get("accept", ""):
            return RedirectResponse(f"{LOGIN}?{urlencode({'next': f'{path}?{query}' if query else path})}", 303)
        hint = "send a token as Authorization: Bearer, or log in at /login"
        if not self.guard.has_logins:
            hint = "connect through the proxy that logs people in"
        return error_response(request, 401, "not logged in", hint, {"WWW-Authenticate": 'Bearer realm="gpulake"'})


def bearer_of(request: Request) -> str:
    kind, _, token = request.headers.get("authorization", "").partition(" ")
    return token.strip() if kind.lower() == "bearer" else ""


def too_many(request: Request, seconds: int) -> Response:
    headers = {"Retry-After": str(seconds)}
    return error_response(request, 429, "too many tokens were wrong", f"try again in {seconds} seconds", headers)


def _is_own(request: Request, host: str) -> bool:
    """Not a cross-site request: browsers name the site that sends, other programs do not."""
    origin = request.headers.get("origin")
    if request.headers.get("sec-fetch-site", "none") not in ("none", "same-origin"):
        return False
    try:
        parts = urlsplit(origin) if origin is not None else None
        return parts is None or (parts.scheme in ("http", "https") and parts.netloc.lower() == host.lower())
    except ValueError:
        return False


def _only(headers: Headers, name: str) -> str | None:
    values = headers.getlist(name)
    value = values[0].strip() if len(values) == 1 else ""
    return value if value and value.isprintable() and len(value) <= MOST_HEADER else None


def _has_body(request: Request) -> bool:
    headers = request.headers
    return "transfer-encoding" in headers or headers.get("content-length", "0") != "0"


def _is_large(request: Request, most_bytes: int) -> bool:
    """By its Content-Length, which the server enforces."""
    length = request.headers.get("content-length", "0")
    return not length.isdecimal() or len(length) > len(str(most_bytes)) or int(length) > most_bytes


def _bounded(receive: Receive, most_bytes: int) -> Receive:
    """Limits the total size of a body that comes in pieces."""
    count = 0

    async def received() -> Message:
        nonlocal count
        message = await receive()
        count += len(message.get("body", b""))
        if count > most_bytes:
            raise HTTPException(413, f"this request has more than {most_bytes} bytes", {"Connection": "close"})
        return message

    return received
