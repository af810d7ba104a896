"""The dashboard on a lake, with the actions of people as the commands carry them out."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING, BinaryIO

from gpulake.core.clock import Clock, SystemClock
from gpulake.core.errors import UsageError
from gpulake.detect.listing import explain
from gpulake.flow.alerting import try_sink
from gpulake.flow.annotating import annotate, remove_annotation, remove_view, save_view
from gpulake.flow.incidents import add_window, change, remove_window
from gpulake.lake import Lake

if TYPE_CHECKING:
    from fastapi import FastAPI

    from gpulake.show.web.actions import Actions
    from gpulake.show.web.changes import Change
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
    now = clock or SystemClock()
    acts = actions(place, now) if can_write else None
    kept = changes(place, now) if can_write else {}
    return create_app(place, guard, acts, lambda incident_id: explain(place, incident_id), kept)


def actions(lake: Lake, clock: Clock) -> Actions:
    return lambda verb, incident_id, by, values: change(lake, clock, verb, incident_id, by, **values).only


def changes(lake: Lake, clock: Clock) -> dict[str, Change]:
    """What people change on the dashboard beside incidents."""
    return {
        "save_view": lambda who, values: save_view(lake, clock, who.name, **values).view_id,
        "remove_view": lambda who, values: remove_view(lake, clock, who.name, values["id"], who.is_operator).view_id,
        "annotate": lambda who, values: annotate(lake, clock, who.name, **values).annotation_id,
        "remove_annotation": lambda who, values: remove_annotation(lake, clock, who.name, values["id"]).annotation_id,
        "add_window": lambda who, values: add_window(lake, clock, who.name, **values).window_id,
        "remove_window": lambda who, values: remove_window(lake, clock, values["id"], who.name).window_id,
        "test_sink": lambda _, values: try_sink(lake, clock, values["id"]).alert_id,
    }


def serve(lake: Lake, host: str, port: int, started: Callable[[str], None]) -> None:
    from gpulake.show.web.server import serve

    serve(lake, lambda guard: application(lake, guard), host, port, started)


def assist(lake: Lake, read: BinaryIO, write: BinaryIO) -> None:
    """Questions of an assistant, until it closes."""
    try:
        from gpulake.show.web.assistants import assist
    except ModuleNotFoundError as error:
        raise UsageError(f"{error.name} is not installed", "pip install 'gpulake[serve]'") from error
    assist(lake.open(), read, write)
