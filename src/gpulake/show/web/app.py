"""The web application."""

from __future__ import annotations

import asyncio
import gzip
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from functools import cache

from fastapi import FastAPI, Request, Response
from starlette.exceptions import HTTPException
from starlette.middleware.gzip import GZipMiddleware

from gpulake import __version__
from gpulake.lake import Lake
from gpulake.lake.sandbox import Sandbox
from gpulake.show.web import actions as acting
from gpulake.show.web import api, events, html, login, metrics, sql, tools
from gpulake.show.web import changes as changing
from gpulake.show.web.actions import Actions
from gpulake.show.web.answers import Answers
from gpulake.show.web.changes import Change
from gpulake.show.web.errors import add_errors
from gpulake.show.web.explained import Explain
from gpulake.show.web.guard import Guard, Guarded
from gpulake.show.web.warming import Warming

KINDS = {"css": "text/css", "js": "text/javascript"}
FOR_EVER = "public, max-age=31536000, immutable"
LEAST_ZIPPED_BYTES = 1_000


def create_app(
    lake: Lake,
    guard: Guard | None = None,
    actions: Actions | None = None,
    explain: Explain | None = None,
    changes: Mapping[str, Change] | None = None,
) -> FastAPI:
    """The dashboard of a lake. Without a guard every client is let in, under any host name."""
    answers, guard = Answers(lake), guard or Guard(lake.config.serve)
    warming, sandbox = Warming(answers), Sandbox(lake.config)
    live = events.Events(answers.snapshots, has_new_build=warming.begin, settings=guard.settings)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        if lake.config.serve.sql:
            sandbox.prepare()
        async with live.watching():
            yield
        await asyncio.to_thread(warming.end)
        sandbox.close()
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
    app.add_middleware(Guarded, guard=guard)
    requests = metrics.Requests()
    app.add_middleware(metrics.Measured, requests=requests)
    app.state.events = live
    app.state.actions = actions
    add_errors(app)
    _add_static(app)
    for part in (
        login.router(guard),
        events.router(live),
        metrics.router(answers, live, requests),
        sql.router(lake.config.serve, sandbox),
        api.router(answers),
        acting.router(answers, actions),
        changing.router(changes or {}),
        html.router(answers, explain),
        tools.router(answers, guard),
    ):
        # Not `include_router`: that makes each of the hundreds of routes anew, for settings that no part has.
        app.router.routes += part.routes
    return app


def _add_static(app: FastAPI) -> None:
    @app.get("/static/{digest}/{name}", include_in_schema=False)
    def static(request: Request, digest: str, name: str) -> Response:  # noqa: ARG001 - part of the URL only
        kind = KINDS.get(name.rpartition(".")[2])
        if kind is None or name not in html.static_names():
            raise HTTPException(404)
        headers = {"Cache-Control": FOR_EVER, "Vary": "Accept-Encoding"}
        if "gzip" in request.headers.get("accept-encoding", ""):
            headers["Content-Encoding"] = "gzip"
            return Response(_zipped(name), media_type=kind, headers=headers)
        return Response(html.static_file(name), media_type=kind, headers=headers)


@cache
def _zipped(name: str) -> bytes:
    return gzip.compress(html.static_file(name), 6)
