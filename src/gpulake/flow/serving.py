"""Serving: the dashboard on a lake, for as long as somebody wants it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpulake.core.errors import UsageError
from gpulake.lake import Lake

if TYPE_CHECKING:
    from fastapi import FastAPI

STOP_SECONDS = 5


def application(lake: Lake) -> FastAPI:
    try:
        from gpulake.show.web.app import create_app
    except ModuleNotFoundError as error:
        raise UsageError(f"{error.name} is not installed", "pip install 'gpulake[serve]'") from error
    return create_app(lake.open())


def serve(lake: Lake, host: str, port: int) -> None:
    app = application(lake)
    import uvicorn

    # Who listens for news would be waited for without an end.
    config = uvicorn.Config(app, host=host, port=port, log_level="warning", timeout_graceful_shutdown=STOP_SECONDS)
    server = uvicorn.Server(config)
    app.state.events.is_stopping = lambda: server.should_exit
    server.run()
