"""Serving: the dashboard on a lake, for as long as somebody wants it."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from gpulake.core.clock import Clock, SystemClock
from gpulake.core.errors import UsageError
from gpulake.flow import incidents
from gpulake.lake import Lake

if TYPE_CHECKING:
    from fastapi import FastAPI

    from gpulake.show.web.actions import Actions

STOP_SECONDS = 5


def application(lake: Lake, clock: Clock | None = None) -> FastAPI:
    try:
        from gpulake.show.web.app import create_app
    except ModuleNotFoundError as error:
        raise UsageError(f"{error.name} is not installed", "pip install 'gpulake[serve]'") from error
    place = lake.open()
    # A lake that is mounted read-only, or that is somebody else's, is looked at and no more.
    can_write = os.access(place.root, os.W_OK)
    return create_app(place, actions(place, clock or SystemClock()) if can_write else None)


def actions(lake: Lake, clock: Clock) -> Actions:
    """What the dashboard's people do, as the commands do it."""
    from gpulake.show.web.actions import Actions

    return Actions(
        acknowledge=lambda one: incidents.acknowledge(lake, clock, [one.incident_id], one.by, one.note, one.is_held)[0],
        mute=lambda one: incidents.mute(lake, clock, [one.incident_id], one.by, one.note, one.until)[0],
        unmute=lambda one: incidents.unmute(lake, clock, [one.incident_id], one.by, one.note)[0],
        resolve=lambda one: incidents.resolve(lake, clock, [one.incident_id], one.by, one.note)[0],
    )


def serve(lake: Lake, host: str, port: int) -> None:
    app = application(lake)
    import uvicorn

    # Who listens for news would be waited for without an end.
    config = uvicorn.Config(app, host=host, port=port, log_level="warning", timeout_graceful_shutdown=STOP_SECONDS)
    server = uvicorn.Server(config)
    app.state.events.is_stopping = lambda: server.should_exit
    server.run()
