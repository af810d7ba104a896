"""The dashboard on a lake, with the actions of people as the commands carry them out."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING

from gpulake.core.clock import Clock, SystemClock
from gpulake.core.errors import UsageError
from gpulake.detect.listing import explain
from gpulake.flow.incidents import change
from gpulake.lake import Lake

if TYPE_CHECKING:
    from fastapi import FastAPI

    from gpulake.show.web.actions import Actions
    from gpulake.show.web.guard import Guard


def application(lake: Lake, guard: Guard | None = None, clock: Clock | None = None) -> FastAPI:
    """Without a guard every request is answered: for callers that check requests themselves."""
    try:
        from gpulake.show.web.app import create_app
    except ModuleNotFoundError as error:
        raise UsageError(f"{error.name} is not installed", "pip install 'gpulake[serve]'") from error
    place = lake.open()
    # A lake that is mounted read-only, or that belongs to another user, is only shown.
    can_write = os.access(place.root, os.W_OK)
    acts = actions(place, clock or SystemClock()) if can_write else None
    return create_app(place, guard, acts, lambda incident_id: explain(place, incident_id))


def actions(lake: Lake, clock: Clock) -> Actions:
    return lambda verb, incident_id, by, values: change(lake, clock, verb, incident_id, by, **values).only


def serve(lake: Lake, host: str, port: int, started: Callable[[str], None]) -> None:
    from gpulake.show.web.server import serve

    serve(lake, lambda guard: application(lake, guard), host, port, started)
