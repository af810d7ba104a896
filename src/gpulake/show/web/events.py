"""Live updates: one watcher polls the lake and notifies every open page of changes."""

from __future__ import annotations

import asyncio
import hashlib
import json
import threading
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field

from fastapi import APIRouter, Request, Response
from fastapi.responses import JSONResponse, StreamingResponse
from starlette.types import Receive, Scope, Send

from gpulake.core.errors import GpulakeError
from gpulake.core.serve_settings import Serve
from gpulake.lake.snapshots import Snapshots
from gpulake.show.web.api import ERRORS, PREFIX, viewer_of

LOOK_SECONDS = 1.0
HEARTBEAT_SECONDS = 15.0
LONGEST_SECONDS = 3600.0  # then the browser reconnects, and is authenticated again
# Proxies must neither buffer nor compress the stream.
HEADERS = {"Cache-Control": "no-store, no-transform", "X-Accel-Buffering": "no"}


@dataclass
class Events:
    snapshots: Snapshots
    has_new_build: Callable[[], None] = lambda: None  # called in a separate thread
    is_stopping: Callable[[], bool] = lambda: False
    settings: Serve = field(default_factory=Serve)
    token: str = ""  # a hash of the state of the lake
    clients: Counter[str] = field(default_factory=Counter)  # by the name of the viewer
    _state: str = ""
    _news: asyncio.Event = field(default_factory=asyncio.Event)
    _is_over: bool = False

    @asynccontextmanager
    async def watching(self) -> AsyncIterator[None]:
        watcher = asyncio.create_task(self._watch())
        try:
            yield
        finally:
            self._end()
            watcher.cancel()
            with suppress(asyncio.CancelledError):
                await watcher

    async def stream(self) -> AsyncIterator[str]:
        """The events for one client: the current state and each later one. A slow client may miss some."""
        end = asyncio.get_running_loop().time() + LONGEST_SECONDS
        sent = ""
        while not self._is_over and asyncio.get_running_loop().time() < end:
            news = self._news
            if self.token != sent:
                sent = self.token
                yield f"event: state\ndata: {json.dumps({'token': sent})}\n\n"
                continue
            try:
                await asyncio.wait_for(news.wait(), HEARTBEAT_SECONDS)
            except TimeoutError:
                yield ": still here\n\n"

    async def _watch(self) -> None:
        while not self.is_stopping():
            try:
                state, everything = await asyncio.to_thread(self.snapshots.refresh)
            except GpulakeError:  # clients that ask get the error
                pass
            else:
                self._publish(state, everything)
            await asyncio.sleep(LOOK_SECONDS)
        self._end()

    def _publish(self, state: str, everything: str) -> None:
        token = hashlib.sha256(everything.encode()).hexdigest()[:16]
        if token != self.token:
            self.token = token
            self._wake()
        if state != self._state:
            self._state = state
            threading.Thread(target=self.has_new_build, name="new-build", daemon=True).start()

    def _end(self) -> None:
        self._is_over = True
        self._wake()

    def _wake(self) -> None:
        before, self._news = self._news, asyncio.Event()
        before.set()


class _Stream(StreamingResponse):
    """Counted from before its first byte until after its last, so that simultaneous clients count, too."""

    def __init__(self, events: Events, viewer: str) -> None:
        super().__init__(events.stream(), media_type="text/event-stream", headers=HEADERS)
        self.events, self.viewer = events, viewer

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        clients, settings = self.events.clients, self.events.settings
        if clients[self.viewer] >= settings.most_streams_per_viewer:
            await _refused(429, "too many open streams of this viewer")(scope, receive, send)
        elif clients.total() >= settings.most_streams:
            await _refused(503, "too many open streams")(scope, receive, send)
        else:
            clients[self.viewer] += 1
            try:
                await super().__call__(scope, receive, send)
            finally:
                clients.subtract([self.viewer])
                if not clients[self.viewer]:
                    del clients[self.viewer]


def _refused(status: int, message: str) -> Response:
    return JSONResponse({"error": message, "hint": "close a page"}, status, {"Retry-After": "60"})


def router(events: Events) -> APIRouter:
    routes = APIRouter(prefix=PREFIX)
    described = {
        200: {"content": {"text/event-stream": {}}, "description": "an event `state` whenever rows have changed"},
        **ERRORS,
    }

    @routes.get("/events", summary="A stream of changes", tags=["about"], response_class=Response, responses=described)
    async def changes(request: Request) -> Response:
        return _Stream(events, viewer_of(request).name)

    return routes
