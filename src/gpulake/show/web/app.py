"""The application: what answers requests, and what it says when it cannot."""

from __future__ import annotations

import gzip
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from functools import cache

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import HTMLResponse, JSONResponse
from starlette.exceptions import HTTPException
from starlette.middleware.gzip import GZipMiddleware

from gpulake import __version__
from gpulake.core.errors import GpulakeError, UsageError
from gpulake.lake import Lake
from gpulake.show.web import api, events, html, metrics
from gpulake.show.web.answers import Answers
from gpulake.show.web.viewers import LOCAL
from gpulake.show.web.warming import Warming

# Scripts and data come from here alone. Plotly sets styles on what it draws.
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
}
STATIC = {"app.css": "text/css", "app.js": "text/javascript", "plotly.js": "text/javascript"}
FOR_EVER = "public, max-age=31536000, immutable"
LEAST_ZIPPED_BYTES = 1_000


def create_app(lake: Lake) -> FastAPI:
    answers = Answers(lake)
    live = events.Events(answers.snapshots, has_new_build=Warming(answers).begin)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        async with live.watching():
            yield
        answers.snapshots.close()

    app = FastAPI(
        title="gpulake",
        version=__version__,
        description="Where every GPU-hour goes, what is abnormal, why jobs die and what to do: the lake, as JSON.",
        openapi_url=f"{api.PREFIX}/openapi.json",
        docs_url=None,
        redoc_url=None,
        lifespan=lifespan,
    )
    app.add_middleware(GZipMiddleware, minimum_size=LEAST_ZIPPED_BYTES)

    @app.middleware("http")
    async def guarded(request: Request, call_next: Callable[[Request], Awaitable[Response]]) -> Response:
        request.state.viewer = LOCAL
        response = await call_next(request)
        for name, value in HEADERS.items():
            response.headers.setdefault(name, value)
        response.headers.setdefault("Cache-Control", "no-store")
        return response

    app.state.events = live
    _add_errors(app)
    _add_static(app)
    requests = metrics.Requests()
    app.add_middleware(metrics.Measured, requests=requests)
    app.include_router(events.router(live))
    app.include_router(metrics.router(answers, live, requests))
    app.include_router(api.router(answers))
    app.include_router(html.router(answers))
    return app


def _add_static(app: FastAPI) -> None:
    @app.get("/static/{digest}/{name}", include_in_schema=False)
    def static(request: Request, digest: str, name: str) -> Response:  # noqa: ARG001 - part of the address alone
        if name not in STATIC:
            raise HTTPException(404)
        headers = {"Cache-Control": FOR_EVER, "Vary": "Accept-Encoding"}
        if "gzip" in request.headers.get("accept-encoding", ""):
            headers["Content-Encoding"] = "gzip"
            return Response(_zipped(name), media_type=STATIC[name], headers=headers)
        return Response(html.static_file(name), media_type=STATIC[name], headers=headers)


@cache
def _zipped(name: str) -> bytes:
    return gzip.compress(html.static_file(name), 6)


def _add_errors(app: FastAPI) -> None:
    @app.exception_handler(GpulakeError)
    async def ours(request: Request, error: GpulakeError) -> Response:
        return told(request, 400 if isinstance(error, UsageError) else 503, error.message, error.hint)

    @app.exception_handler(RequestValidationError)
    async def invalid(request: Request, error: RequestValidationError) -> Response:
        words = "; ".join(f"{one['loc'][-1]}: {one['msg']}" for one in error.errors())
        return told(request, 422, words, f"see {api.PREFIX}/openapi.json")

    @app.exception_handler(HTTPException)
    async def http(request: Request, error: HTTPException) -> Response:
        hint = "start at /" if error.status_code == 404 else ""
        return told(request, error.status_code, str(error.detail), hint, error.headers)


def told(request: Request, status: int, message: str, hint: str, headers: Mapping[str, str] | None = None) -> Response:
    """An error as the asker reads: JSON for machines, a page or a piece of one for people."""
    path = request.url.path
    if path.startswith("/api/"):
        return JSONResponse({"error": message, "hint": hint}, status, headers)
    template = "panels/error.html" if path.startswith("/panels/") else "error.html"
    text = html.environment().get_template(template).render(message=message, hint=hint, status=status)
    return HTMLResponse(text, status, headers)
