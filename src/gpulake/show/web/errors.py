"""Error responses of the dashboard, and the headers that every response carries."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import HTMLResponse, JSONResponse
from starlette.exceptions import HTTPException

from gpulake.core.errors import GpulakeError, UsageError
from gpulake.show.web import html
from gpulake.show.web.pages import pages

# Scripts and data come from this server only. Bars of tables have their width inline.
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data: blob:; "
    "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
}
MOST_VALUE = 60  # letters of what was given
_LOG = logging.getLogger(__name__)


def add_errors(app: FastAPI) -> None:
    @app.exception_handler(GpulakeError)
    async def ours(request: Request, error: GpulakeError) -> Response:
        return error_response(request, 400 if isinstance(error, UsageError) else 503, error.message, error.hint)

    @app.exception_handler(RequestValidationError)
    async def invalid(request: Request, error: RequestValidationError) -> Response:
        return error_response(request, 422, fault_words(error), "see /docs")

    @app.exception_handler(HTTPException)
    async def http(request: Request, error: HTTPException) -> Response:
        hint = "start at /" if error.status_code == 404 else ""
        message: Any = error.detail
        if isinstance(message, dict):
            message, hint = message["error"], message["hint"]
        return error_response(request, error.status_code, str(message), hint, error.headers)

    @app.exception_handler(Exception)
    async def unexpected(request: Request, error: Exception) -> Response:
        # Details go to the log only: they may concern other people, or this machine.
        _LOG.error("unexpected error path=%r", path_of(request), exc_info=error)
        return error_response(request, 500, "the dashboard failed", "the server's log says how; please report it")


def fault_words(error: RequestValidationError) -> str:
    return "; ".join(_fault(one) for one in error.errors())


def _fault(fault: Mapping[str, Any]) -> str:
    """Of a parameter or a field that cannot be: what it is, and what it could be."""
    name, kind, value = fault["loc"][-1], str(fault["type"]), repr(fault.get("input"))[:MOST_VALUE]
    pattern = str(fault.get("ctx", {}).get("pattern", ""))
    if kind == "missing":
        return f"{name} is missing"
    if pattern.startswith("^(") and pattern.endswith(")$"):
        return f"{name}: {value} is none of {', '.join(pattern[2:-2].split('|'))}"
    if kind.startswith("date_"):
        return f"{name}: {value} is not a day; write it as 2026-03-01"
    return f"{name}: {fault['msg']}"


def path_of(request: Request) -> str:
    """The routed path. The path of the URL also depends on the Host header, which a client can forge."""
    return str(request.scope["path"])


def error_response(
    request: Request, status: int, message: str, hint: str, headers: Mapping[str, str] | None = None
) -> Response:
    """JSON for the API, a page or a panel of one for people."""
    path, every = path_of(request), {**HEADERS, "Cache-Control": "no-store", **(headers or {})}
    if path.startswith("/api/"):
        return JSONResponse({"error": message, "hint": hint}, status, every)
    template = "panels/error.html" if path.startswith("/panels/") else "error.html"
    text = html.environment().get_template(template).render(message=message, hint=hint, status=status, pages=pages())
    return HTMLResponse(text, status, every)
